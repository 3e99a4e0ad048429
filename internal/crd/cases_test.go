package crd

// cases are objects, and what an API server says about each. apiserver_test.go asks a real
// one.
var cases = []struct {
	name, object string
	want         []string // nil for an object that is accepted
}{
	{"a tag mirror set", itms(`imageTagMirrors: [{source: quay.io/shop, mirrors: [mirror.example.com/shop], mirrorSourcePolicy: NeverContactSource}]`), nil},
	{"no entries", itms(``), nil},
	{
		"as oc-mirror writes it",
		"apiVersion: config.openshift.io/v1\nkind: ImageDigestMirrorSet\nmetadata: {name: idms-release-0, creationTimestamp: null}\nspec: {imageDigestMirrors: [{mirrors: [m.example.com/openshift/release], source: quay.io/openshift-release-dev/ocp-v4.0-art-dev}]}\nstatus: {}\n",
		nil,
	},
	{
		"as oc get writes it",
		"apiVersion: config.openshift.io/v1\nkind: ImageTagMirrorSet\nmetadata: {name: a, creationTimestamp: \"2025-01-01T00:00:00Z\", generation: 3, uid: b7f3a1c2, managedFields: [{manager: x, operation: Update, apiVersion: config.openshift.io/v1}]}\nspec: {}\n",
		nil,
	},
	{"null is as good as nothing", itms(`imageTagMirrors: null`), nil},
	{"null mirrors too", itms(`imageTagMirrors: [{source: quay.io, mirrors: null}]`), nil},
	{"status is the controller's", itms("imageTagMirrors: []") + "status: {}\n", nil},
	{"a policy in the wrong case is none", itms(`imageTagMirrors: [{source: quay.io, mirrors: [m.example.com], mirrorSourcePolicy: neverContactSource}]`), []string{`spec.imageTagMirrors[0].mirrorSourcePolicy: Unsupported value: "neverContactSource": supported values: "NeverContactSource", "AllowContactingSource"`}},
	{"nor is an empty one", itms(`imageTagMirrors: [{source: quay.io, mirrors: [m.example.com], mirrorSourcePolicy: ""}]`), []string{`spec.imageTagMirrors[0].mirrorSourcePolicy: Unsupported value: "": supported values: "NeverContactSource", "AllowContactingSource"`}},
	{"nor one that is not known", idms(`imageDigestMirrors: [{source: quay.io, mirrors: [m.example.com], mirrorSourcePolicy: Sometimes}]`), []string{`spec.imageDigestMirrors[0].mirrorSourcePolicy: Unsupported value: "Sometimes": supported values: "NeverContactSource", "AllowContactingSource"`}},
	{"a misspelt field", itms(`imageTagMirrors: [{source: quay.io, mirorrs: [m.example.com]}]`), []string{"spec.imageTagMirrors[0].mirorrs: Forbidden: unknown field"}},
	{"a field in the wrong case", itms(`imageTagMirrors: [{source: quay.io, Mirrors: [m.example.com]}]`), []string{"spec.imageTagMirrors[0].Mirrors: Forbidden: unknown field"}},
	{"the list of the other kind", itms(`imageDigestMirrors: [{source: quay.io, mirrors: [m.example.com]}]`), []string{"spec.imageDigestMirrors: Forbidden: unknown field"}},
	{"a field of metadata that is not known", "apiVersion: config.openshift.io/v1\nkind: ImageTagMirrorSet\nmetadata: {name: a, lables: {b: c}}\nspec: {}\n", []string{"metadata.lables: Forbidden: unknown field"}},
	{"a label that is no string", "apiVersion: config.openshift.io/v1\nkind: ImageTagMirrorSet\nmetadata: {name: a, labels: {b: 1}}\nspec: {}\n", []string{`metadata: Invalid value: {"labels":{"b":1},"name":"a"}: json: cannot unmarshal number into Go struct field ObjectMeta.labels of type string`}},
	{"a name that is none", "apiVersion: config.openshift.io/v1\nkind: ImageTagMirrorSet\nmetadata: {name: Shop_1}\nspec: {}\n", []string{`metadata.name: Invalid value: "Shop_1": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`}},
	{"a namespace where there are none", "apiVersion: config.openshift.io/v1\nkind: ImageTagMirrorSet\nmetadata: {name: a, namespace: default}\nspec: {}\n", nil},
	{"no spec", "apiVersion: config.openshift.io/v1\nkind: ImageTagMirrorSet\nmetadata: {name: a}\n", []string{"spec: Required value"}},
	{"a mirror twice", idms(`imageDigestMirrors: [{source: quay.io, mirrors: [m.example.com, n.example.com, m.example.com]}]`), []string{`spec.imageDigestMirrors[0].mirrors[2]: Duplicate value: "m.example.com"`}},
	{"null among the mirrors", idms(`imageDigestMirrors: [{source: quay.io, mirrors: [null]}]`), []string{`spec.imageDigestMirrors[0].mirrors[0]: Invalid value: "null": spec.imageDigestMirrors[0].mirrors[0] in body must be of type string: "null"`}},
	{"a number for a string", idms(`imageDigestMirrors: [{source: 5000, mirrors: [m.example.com]}]`), []string{`spec.imageDigestMirrors[0].source: Invalid value: "integer": spec.imageDigestMirrors[0].source in body must be of type string: "integer"`}},
	{"a string for a list", idms(`imageDigestMirrors: [{source: quay.io, mirrors: m.example.com}]`), []string{`spec.imageDigestMirrors[0].mirrors: Invalid value: "string": spec.imageDigestMirrors[0].mirrors in body must be of type array: "string"`}},
	{"a source with a scheme", itms(`imageTagMirrors: [{source: "https://quay.io", mirrors: [m.example.com]}]`), []string{`spec.imageTagMirrors[0].source: Invalid value: "https://quay.io": leave out "https://", as a name has no scheme: spec.imageTagMirrors[0].source in body should match '^\*(?:\.(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9]))+$|^((?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])(?:(?:\.(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9]))+)?(?::[0-9]+)?)(?:(?:/[a-z0-9]+(?:(?:(?:[._]|__|[-]*)[a-z0-9]+)+)?)+)?$'`}},
	{"an entry without a source", itms(`imageTagMirrors: [{mirrors: [m.example.com]}]`), []string{"spec.imageTagMirrors[0].source: Required value"}},
	{
		"all at once",
		itms(`imageTagMirrors: [{source: quay.io, mirrors: [m.example.com, "a b"], mirrorSourcePolicy: Never}, {sorce: quay.io}]`),
		[]string{
			`spec.imageTagMirrors[0].mirrorSourcePolicy: Unsupported value: "Never": supported values: "NeverContactSource", "AllowContactingSource"`,
			`spec.imageTagMirrors[0].mirrors[1]: Invalid value: "a b": there is a space in it: spec.imageTagMirrors[0].mirrors[1] in body should match '^((?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])(?:(?:\.(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9]))+)?(?::[0-9]+)?)(?:(?:/[a-z0-9]+(?:(?:(?:[._]|__|[-]*)[a-z0-9]+)+)?)+)?$'`,
			"spec.imageTagMirrors[1].sorce: Forbidden: unknown field",
			"spec.imageTagMirrors[1].source: Required value",
		},
	},
	{"a content source policy has no patterns", icsp(`repositoryDigestMirrors: [{source: "https://quay.io", mirrors: [m.example.com, m.example.com]}]`), nil},
	{"a policy that content source policies do not have", icsp(`repositoryDigestMirrors: [{source: quay.io, mirrors: [m.example.com], mirrorSourcePolicy: NeverContactSource}]`), []string{"spec.repositoryDigestMirrors[0].mirrorSourcePolicy: Forbidden: unknown field"}},
	{"registry lists", image(`{allowedRegistries: [quay.io, "*.example.com", "m.example.com:5000/x"]}`), nil},
	{"a tag in a registry list", image(`{blockedRegistries: ["quay.io/shop/cart:v1"]}`), []string{`spec.registrySources.blockedRegistries[0]: Invalid value: "quay.io/shop/cart:v1": each registry must be a valid hostname[:port][/path] or wildcard *.hostname format without tags or digests`}},
	{"an empty registry", image(`{insecureRegistries: [""]}`), []string{
		`spec.registrySources.insecureRegistries[0]: Invalid value: "": each registry must be a valid hostname[:port][/path] or wildcard *.hostname format without tags or digests`,
		`spec.registrySources.insecureRegistries[0]: Invalid value: "": spec.registrySources.insecureRegistries[0] in body should be at least 1 chars long`,
	}},
	{"allowed and blocked", image(`{allowedRegistries: [quay.io], blockedRegistries: [docker.io]}`), []string{"spec.registrySources: Invalid value: Only one of blockedRegistries or allowedRegistries may be set"}},
	{"a search registry twice", image(`{containerRuntimeSearchRegistries: [quay.io, quay.io]}`), []string{`spec.registrySources.containerRuntimeSearchRegistries[1]: Duplicate value: "quay.io"`}},
	{"no search registry", image(`{containerRuntimeSearchRegistries: []}`), []string{"spec.registrySources.containerRuntimeSearchRegistries: Invalid value: 0: spec.registrySources.containerRuntimeSearchRegistries in body should have at least 1 items"}},
	{"a string for registry lists", image(`quay.io`), []string{`spec.registrySources: Invalid value: "string": spec.registrySources in body must be of type object: "string"`}},
	{
		"a signature policy",
		"apiVersion: config.openshift.io/v1\nkind: ClusterImagePolicy\nmetadata: {name: a}\nspec: {scopes: [quay.io/shop], policy: {rootOfTrust: {policyType: PublicKey, publicKey: {keyData: LS0tLS1CRUdJTiBQVUJMSUMgS0VZLS0tLS0KTUZrd0V3WUhLb1pJemowQ0FRWUlLb1pJemowREFRY0RRZ0FFCi0tLS0tRU5EIFBVQkxJQyBLRVktLS0tLQ==}}}}\n",
		nil,
	},
	{"a signature policy without a root of trust", "apiVersion: config.openshift.io/v1\nkind: ClusterImagePolicy\nmetadata: {name: a}\nspec: {scopes: [quay.io/shop], policy: {}}\n", []string{"spec.policy.rootOfTrust: Required value"}},
	{
		"a scope may have a tag",
		"apiVersion: config.openshift.io/v1\nkind: ImagePolicy\nmetadata: {name: a}\nspec: {scopes: [\"quay.io/shop:v1\"], policy: {rootOfTrust: {policyType: PublicKey, publicKey: {keyData: LS0tLS1CRUdJTiBQVUJMSUMgS0VZLS0tLS0KTUZrd0V3WUhLb1pJemowQ0FRWUlLb1pJemowREFRY0RRZ0FFCi0tLS0tRU5EIFBVQkxJQyBLRVktLS0tLQ==}}}}\n",
		nil,
	},
	{"null for the spec", "apiVersion: config.openshift.io/v1\nkind: ImagePolicy\nmetadata: {name: a}\nspec: null\n", []string{"spec: Required value"}},
}

func itms(spec string) string { return object("config.openshift.io/v1", "ImageTagMirrorSet", spec) }

func idms(spec string) string { return object("config.openshift.io/v1", "ImageDigestMirrorSet", spec) }

func icsp(spec string) string {
	return object("operator.openshift.io/v1alpha1", "ImageContentSourcePolicy", spec)
}

func image(sources string) string {
	return object("config.openshift.io/v1", "Image", "registrySources: "+sources)
}

func object(version, kind, spec string) string {
	if spec == "" {
		spec = "{}"
	}
	return "apiVersion: " + version + "\nkind: " + kind + "\nmetadata: {name: a}\nspec:\n  " + spec + "\n"
}
