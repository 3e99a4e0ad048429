package packaging

import (
	"encoding/json"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	"sigs.k8s.io/yaml"

	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/config"
)

var update = flag.Bool("update", false, "write the configuration's part of values.schema.json")

// image runs nothing: no node is here.
const (
	repository = "registry.example.com/ops/mirrorset-guard"
	digest     = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	proxyImage = "quay.io/openshift-release-dev/ocp-v4.0-art-dev@" + digest
)

// values are those that every installation needs, and more.
func values(more map[string]any) map[string]any {
	return chartutil.CoalesceTables(maps.Clone(more), map[string]any{"image": map[string]any{"repository": repository, "digest": digest}})
}

// render is `helm template`, which knows no cluster.
func render(t *testing.T, namespace string, values map[string]any) (string, error) {
	t.Helper()
	return renderChart(t, chartFolder, namespace, values)
}

// renderChart is render for a chart in a folder or an archive.
func renderChart(t *testing.T, path, namespace string, values map[string]any) (string, error) {
	t.Helper()
	chart, err := loader.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	install := action.NewInstall(&action.Configuration{Log: func(string, ...any) {}})
	install.ReleaseName, install.Namespace, install.DryRun, install.ClientOnly = "mirrorset-guard", namespace, true, true
	install.KubeVersion = &chartutil.KubeVersion{Version: "v1.30.0", Major: "1", Minor: "30"}
	release, err := install.RunWithContext(t.Context(), chart, values)
	if err != nil {
		return "", err
	}
	return release.Manifest, nil
}

// TestChartIsTheBase: object by object, the chart installs what the base and the overlay for the same
// wish do. Helm makes the namespace, or whoever installs.
func TestChartIsTheBase(t *testing.T) {
	for folder, more := range map[string]map[string]any{
		"base":                     {},
		"overlays/all-kinds":       {"allKinds": true},
		"overlays/cert-manager":    {"tls": map[string]any{"source": "cert-manager"}},
		"overlays/client-ca":       {"clientCA": map[string]any{"enabled": true}},
		"overlays/console-link":    {"consoleLink": map[string]any{"host": "report.apps.example.com", "proxyImage": proxyImage}},
		"overlays/grafana":         {"monitoring": map[string]any{"grafana": true}},
		"overlays/machineconfigs":  {"machineConfigs": "Warn"},
		"overlays/own-certificate": {"tls": map[string]any{"source": "secret"}},
		"overlays/single-node":     {"replicas": 1},
		"overlays/sync":            {"sync": map[string]any{"enabled": true}},
		"overlays/tight-egress":    {"egress": map[string]any{"tight": true}},
	} {
		t.Run(folder, func(t *testing.T) {
			rendered, err := render(t, "mirrorset-guard", values(more))
			if err != nil {
				t.Fatal(err)
			}
			want := objects(t, kustomize(t, folder))
			delete(want, "Namespace /mirrorset-guard")
			if folder == "overlays/console-link" { // whose host is not known before
				want["Route mirrorset-guard/mirrorset-guard-report"]["spec"].(map[string]any)["host"] = "report.apps.example.com"
				want["ConsoleLink /mirrorset-guard-report"]["spec"].(map[string]any)["href"] = "https://report.apps.example.com/report"
			}
			if folder == "overlays/own-certificate" {
				delete(want, "Secret mirrorset-guard/mirrorset-guard-tls") // it has to be there
				for _, hook := range want["ValidatingWebhookConfiguration /mirrorset-guard"]["webhooks"].([]any) {
					hook.(map[string]any)["clientConfig"].(map[string]any)["caBundle"] = "" // read from the Secret
				}
			}
			if diff := cmp.Diff(want, objects(t, rendered)); diff != "" {
				t.Errorf("(-kustomize +chart):\n%s", diff)
			}
		})
	}
	overlays, err := os.ReadDir(filepath.Join(root, "manifests", "overlays"))
	if err != nil || len(overlays) != 10 {
		t.Errorf("%d overlays (%v), of which the chart is compared with 10", len(overlays), err)
	}
}

// TestValues: what has no overlay.
func TestValues(t *testing.T) {
	for what, c := range map[string]struct {
		values map[string]any
		object string
		want   []string
	}{
		"the configuration, merged with the defaults": {
			map[string]any{"config": map[string]any{"mode": "warn", "auditLog": "none"}},
			"ConfigMap mirrorset-guard/mirrorset-guard-config",
			[]string{`mode: warn\n`, `auditLog: none\n`, `verifyBlobs: protected\n`},
		},
		"memory": {
			map[string]any{"resources": map[string]any{"limits": map[string]any{"memory": "1000Mi"}}},
			"Deployment mirrorset-guard/mirrorset-guard",
			[]string{`"GOMEMLIMIT","value":"900MiB"`, `"limits":{"memory":"1000Mi"}`},
		},
		"scheduling": {
			map[string]any{"nodeSelector": map[string]any{"a": "b"}, "tolerations": []any{map[string]any{"operator": "Exists"}}, "imagePullSecrets": []any{map[string]any{"name": "pull"}}},
			"Deployment mirrorset-guard/mirrorset-guard",
			[]string{`"nodeSelector":{"a":"b"}`, `{"effect":"NoSchedule","key":"node-role.kubernetes.io/master","operator":"Exists"}`, `{"operator":"Exists"}]`, `"imagePullSecrets":[{"name":"pull"}]`},
		},
		"flags":   {map[string]any{"extraArgs": []any{"--log-level=debug"}}, "Deployment mirrorset-guard/mirrorset-guard", []string{`"--config=/etc/mirrorset-guard/config/config.yaml","--log-level=debug"`}},
		"denials": {map[string]any{"machineConfigs": "Deny"}, "ValidatingAdmissionPolicyBinding /mirrorset-guard-machineconfigs", []string{`"validationActions":["Deny"]`}},
		"ports":   {map[string]any{"egress": map[string]any{"tight": true, "ports": []any{3128}}}, "NetworkPolicy mirrorset-guard/mirrorset-guard", []string{`[{"port":6443,"protocol":"TCP"},{"port":3128,"protocol":"TCP"}]`}},
		"a CA of one's own": {
			map[string]any{"tls": map[string]any{"source": "secret", "caBundle": "-----BEGIN CERTIFICATE-----"}},
			"ValidatingWebhookConfiguration /mirrorset-guard",
			[]string{`"caBundle":"LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0t"`},
		},
		"another issuer": {
			map[string]any{"tls": map[string]any{"source": "cert-manager", "issuerRef": map[string]any{"kind": "ClusterIssuer", "name": "house"}}},
			"Certificate mirrorset-guard/mirrorset-guard",
			[]string{`"issuerRef":{"kind":"ClusterIssuer","name":"house"}`},
		},
	} {
		t.Run(what, func(t *testing.T) {
			rendered, err := render(t, "mirrorset-guard", values(c.values))
			if err != nil {
				t.Fatal(err)
			}
			got, err := json.Marshal(objects(t, rendered)[c.object])
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range c.want {
				if !strings.Contains(string(got), want) {
					t.Errorf("no %s in\n%s", want, got)
				}
			}
			if what == "another issuer" && strings.Contains(rendered, "kind: Issuer") {
				t.Error("there is an issuer of its own as well")
			}
		})
	}
	without, err := render(t, "mirrorset-guard", values(map[string]any{"monitoring": map[string]any{"enabled": false}}))
	if err != nil || strings.Contains(without, "monitoring.coreos.com") {
		t.Errorf("without monitoring there is some: %v", err)
	}
	rendered, err := render(t, "mirrorset-guard", values(map[string]any{"config": map[string]any{"mode": "warn"}}))
	if err != nil {
		t.Fatal(err)
	}
	file := objects(t, rendered)["ConfigMap mirrorset-guard/mirrorset-guard-config"]["data"].(map[string]any)["config.yaml"].(string)
	if _, err := config.Parse([]byte(file)); err != nil {
		t.Errorf("the guard refuses the configuration: %v", err)
	}
}

// TestBadValues: refused with the key, the value and what to do.
func TestBadValues(t *testing.T) {
	image := func(key, value string) map[string]any {
		return map[string]any{"image": map[string]any{"repository": repository, "digest": digest, key: value}}
	}
	with := func(key string, value any) map[string]any { return values(map[string]any{key: value}) }
	for _, c := range []struct {
		namespace string
		values    map[string]any
		want      string
	}{
		{"mirrorset-guard", image("tag", "v0.1.0"), `image.tag "v0.1.0": the guard runs by digest, as a tag may be moved after it was checked: set image.digest instead`},
		{"mirrorset-guard", image("digest", "v0.1.0"), `image.digest "v0.1.0": want sha256: and 64 hexadecimal digits, as make image prints them; a tag is not accepted`},
		{"mirrorset-guard", image("digest", ""), `image.digest "": want sha256:`},
		{"mirrorset-guard", image("repository", ""), `image.repository is not set`},
		{"mirrorset-guard", image("repository", repository+":v0.1.0"), `image.repository "` + repository + `:v0.1.0": this is more than REGISTRY/NAME`},
		{"mirrorset-guard", image("repository", "localhost:5000/guard@"+digest), `this is more than REGISTRY/NAME`},
		{"default", values(nil), `namespace "default": the guard runs in mirrorset-guard`},
		{"mirrorset-guard", with("replica", 3), `replica`},
		{"mirrorset-guard", with("config", map[string]any{"mod": "warn"}), `mod`},
		{"mirrorset-guard", with("config", map[string]any{"mode": "wran"}), `mode`},
		{"mirrorset-guard", with("tls", map[string]any{"source": "vault"}), `source`},
		{"mirrorset-guard", with("tls", map[string]any{"issuerRef": map[string]any{"name": "x"}}), `tls.issuerRef is for tls.source cert-manager, and tls.source is service-ca`},
		{"mirrorset-guard", with("tls", map[string]any{"caBundle": "x"}), `tls.caBundle is for tls.source secret, and tls.source is service-ca`},
		{"mirrorset-guard", with("tls", map[string]any{"source": "secret", "caBundle": "Y2E="}), `tls.caBundle holds no certificate`},
		{"mirrorset-guard", with("monitoring", map[string]any{"enabled": false, "grafana": true}), `monitoring.grafana is set, and monitoring.enabled is not`},
		{"mirrorset-guard", with("resources", map[string]any{"limits": map[string]any{"memory": "1Gi"}}), `resources.limits.memory "1Gi": give it in Mi`},
		{"mirrorset-guard", with("consoleLink", map[string]any{"host": "https://report.example.com/"}), `consoleLink.host "https://report.example.com/": want the host of a Route alone`},
		{"mirrorset-guard", with("consoleLink", map[string]any{"host": "report.example.com", "proxyImage": "quay.io/openshift/oauth-proxy:v4.4"}), `consoleLink.proxyImage "quay.io/openshift/oauth-proxy:v4.4": want OpenShift's oauth-proxy as REGISTRY/NAME@sha256:...`},
		{"mirrorset-guard", values(map[string]any{"consoleLink": map[string]any{"host": "report.example.com", "proxyImage": proxyImage}, "tls": map[string]any{"source": "cert-manager"}}), `consoleLink.host is set, and tls.source is cert-manager`},
		{"mirrorset-guard", with("extraArgs", []any{"debug"}), `extraArgs`},
	} {
		_, err := render(t, c.namespace, c.values)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: got %v, want %s", c.values, err, c.want)
		}
	}
	if _, err := render(t, "mirrorset-guard", image("repository", "localhost:5000/guard")); err != nil {
		t.Errorf("a port is no tag: %v", err)
	}
}

// TestSchema: no level takes keys that it does not know, and the configuration's part is the
// configuration's own schema.
func TestSchema(t *testing.T) {
	file := filepath.Join(chartFolder, chartutil.SchemafileName)
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var schema map[string]any
	if err := json.Unmarshal(data, &schema); err != nil {
		t.Fatal(err)
	}
	properties := schema["properties"].(map[string]any)
	want := configurationSchema(t)
	if *update {
		properties["config"] = want
		data, err := json.MarshalIndent(schema, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, append(data, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(want, properties["config"]); diff != "" {
		t.Errorf("config is not what docs/configuration.schema.json says; go test ./... -run TestSchema -update (-want +got):\n%s", diff)
	}
	checkClosed(t, "", schema)

	chart, err := loader.Load(chartFolder)
	if err != nil {
		t.Fatal(err)
	}
	known := slices.Sorted(maps.Keys(properties))
	known = slices.DeleteFunc(known, func(key string) bool { return key == "global" })
	if diff := cmp.Diff(slices.Sorted(maps.Keys(chart.Values)), known); diff != "" {
		t.Errorf("(-values.yaml +schema):\n%s", diff)
	}
}

// configurationSchema returns the schema of what may be in `config`: Helm values are a part of the file.
func configurationSchema(t *testing.T) map[string]any {
	t.Helper()
	text, err := config.SchemaJSON()
	if err != nil {
		t.Fatal(err)
	}
	var schema map[string]any
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	delete(schema, "$schema")
	delete(schema, "required")
	delete(schema["properties"].(map[string]any), "apiVersion")
	delete(schema["properties"].(map[string]any), "kind")
	return schema
}

func checkClosed(t *testing.T, path string, schema map[string]any) {
	t.Helper()
	if schema["type"] == "object" && path != "global" {
		if additional, isSet := schema["additionalProperties"]; !isSet || additional == true {
			t.Errorf("%q takes any key", path)
		}
	}
	if properties, ok := schema["properties"].(map[string]any); ok {
		for name, property := range properties {
			checkClosed(t, strings.TrimPrefix(path+"."+name, "."), property.(map[string]any))
		}
	}
	if items, ok := schema["items"].(map[string]any); ok {
		checkClosed(t, path+"[]", items)
	}
}

// TestLint: by Helm's own linter.
func TestLint(t *testing.T) {
	linter := lint.AllWithKubeVersion(chartFolder, values(nil), "mirrorset-guard", nil)
	for _, message := range linter.Messages {
		if message.Severity > support.InfoSev {
			t.Error(message)
		}
	}
}

// TestPackagedChart: the archive installs what the folder does, with its image in the values, and tells
// Artifact Hub what has changed, by the changelog.
func TestPackagedChart(t *testing.T) {
	m := makePackages(t)
	packaged, err := loader.Load(filepath.Join(m.dir, "mirrorset-guard-0.1.0.tgz"))
	if err != nil {
		t.Fatal(err)
	}
	if packaged.Metadata.Version != "0.1.0" || packaged.Metadata.AppVersion != version {
		t.Errorf("it is %s of %s", packaged.Metadata.Version, packaged.Metadata.AppVersion)
	}
	_, digest, _ := strings.Cut(m.image, "@")
	folder, err := renderChart(t, chartFolder, "mirrorset-guard", map[string]any{"image": map[string]any{"repository": m.repository, "digest": digest}})
	if err != nil {
		t.Fatal(err)
	}
	archive, err := renderChart(t, filepath.Join(m.dir, "mirrorset-guard-0.1.0.tgz"), "mirrorset-guard", nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(objects(t, folder), objects(t, archive)); diff != "" {
		t.Errorf("(-folder +archive):\n%s", diff)
	}
	for _, message := range lint.AllWithKubeVersion(filepath.Join(m.dir, "chart", "mirrorset-guard"), nil, "mirrorset-guard", nil).Messages {
		if message.Severity > support.InfoSev {
			t.Error(message)
		}
	}

	changelog, err := os.ReadFile(filepath.Join(root, "CHANGELOG.md"))
	if err != nil {
		t.Fatal(err)
	}
	var changes []struct{ Kind, Description string }
	if err := yaml.UnmarshalStrict([]byte(packaged.Metadata.Annotations["artifacthub.io/changes"]), &changes); err != nil {
		t.Fatal(err)
	}
	if want := strings.Count(string(changelog), "\n- ["); len(changes) != want {
		t.Errorf("%d changes, of %d in CHANGELOG.md", len(changes), want)
	}
	for _, change := range changes {
		if !slices.Contains([]string{"added", "changed", "fixed"}, change.Kind) || len(change.Description) < 40 || strings.Contains(change.Description, "](") {
			t.Errorf("%s: %q", change.Kind, change.Description)
		}
	}
	if want := "- image: " + m.image + "\n  name: mirrorset-guard\n"; packaged.Metadata.Annotations["artifacthub.io/images"] != want {
		t.Errorf("images %s, want %s", packaged.Metadata.Annotations["artifacthub.io/images"], want)
	}
}
