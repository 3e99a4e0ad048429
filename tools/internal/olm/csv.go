package olm

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/tools/internal/objects"
)

// name is that of the package, the Deployment, its account and its namespace.
const name = "mirrorset-guard"

const (
	repository = "https://github.com/mirrorset-guard/mirrorset-guard"
	summary    = "Refuses changes of mirror sets that would break image pulls"
)

const description = `Creating or editing an ImageTagMirrorSet or ImageDigestMirrorSet changes, within minutes, where every node
pulls its images from. If the mirror lacks an image that the cluster runs, pods that are rescheduled cannot
start, and a rollout may stall halfway.

mirrorset-guard is a validating admission webhook that knows every image the cluster may have to pull. It
computes, with the nodes' own code, where each one would be pulled from after the change, asks those
registries whether they hold it, and refuses the change, with the reason and the remedy, if a pull would
break.

Install it into the namespace ` + "`mirrorset-guard`" + `, by which its alerts and its own rules know it. Settings are in a
ConfigMap ` + "`mirrorset-guard-config`" + ` there, which you create, and which takes effect without a restart. See the
[manual](` + repository + `/blob/main/docs/install.md).`

// features are the annotations with which a package says what it is fit for. A "true" is a promise.
var features = map[string]string{
	// All images are in relatedImages, by digest, and nothing else is fetched.
	"disconnected": "true",
	// The released binary is built with Go's ordinary cryptography.
	"fips-compliant": "false",
	// It follows Proxy cluster, as nodes do (inventory/trust).
	"proxy-aware": "true",
	// It follows the TLS security profile of APIServer cluster (certs/tlsprofile).
	"tls-profiles": "true",
	// It calls no API of a cloud. Registry credentials that a cloud hands out to nodes are out of its reach.
	"token-auth-aws": "false", "token-auth-azure": "false", "token-auth-gcp": "false",
	// It is neither a network function, nor a network or storage driver.
	"cnf": "false", "cni": "false", "csi": "false",
}

// minKubeVersion is that of OpenShift 4.14.
const (
	minKubeVersion    = "1.27.0"
	openshiftVersions = "v4.14"
)

// platforms are the labels by which consoles offer the package on clusters of other architectures than
// amd64: those that the image is for.
var platforms = objects.Object{
	"operatorframework.io/os.linux":     "supported",
	"operatorframework.io/arch.amd64":   "supported",
	"operatorframework.io/arch.arm64":   "supported",
	"operatorframework.io/arch.ppc64le": "supported",
	"operatorframework.io/arch.s390x":   "supported",
}

// clusterServiceVersion describes r to OLM, which makes the Deployment, the webhooks and their Service of it.
func clusterServiceVersion(base objects.All, r Release, icon []byte) (objects.Object, error) {
	deployment, err := deployment(base, r)
	if err != nil {
		return nil, err
	}
	webhooks, err := webhookDefinitions(base)
	if err != nil {
		return nil, err
	}
	rights, err := clusterPermissions(base)
	if err != nil {
		return nil, err
	}
	csv := objects.Object{
		"apiVersion": "operators.coreos.com/v1alpha1",
		"kind":       "ClusterServiceVersion",
		"metadata":   objects.Object{"name": r.csvName(), "namespace": "placeholder", "annotations": annotations(r), "labels": platforms},
		"spec": objects.Object{
			"displayName":    name,
			"description":    description,
			"version":        r.number(),
			"minKubeVersion": minKubeVersion,
			"maturity":       "alpha",
			"provider":       objects.Object{"name": "The mirrorset-guard authors", "url": repository},
			"links":          []any{objects.Object{"name": "Documentation", "url": repository + "/tree/main/docs"}},
			"keywords":       []any{"mirror", "registry", "disconnected", "admission"},
			"icon":           []any{objects.Object{"base64data": base64.StdEncoding.EncodeToString(icon), "mediatype": "image/svg+xml"}},
			// OLM supports webhooks for cluster-scoped kinds in this mode alone.
			"installModes": []any{
				objects.Object{"type": "OwnNamespace", "supported": false},
				objects.Object{"type": "SingleNamespace", "supported": false},
				objects.Object{"type": "MultiNamespace", "supported": false},
				objects.Object{"type": "AllNamespaces", "supported": true},
			},
			"install": objects.Object{
				"strategy": "deployment",
				"spec":     objects.Object{"deployments": []any{deployment}, "clusterPermissions": []any{rights}},
			},
			"webhookdefinitions": webhooks,
			"relatedImages":      []any{objects.Object{"name": name, "image": r.Image}},
		},
	}
	if m := r.Maintainer; m != nil {
		csv["spec"].(objects.Object)["maintainers"] = []any{objects.Object{"name": m.Name, "email": m.Address}}
	}
	return csv, nil
}

func annotations(r Release) objects.Object {
	all := objects.Object{
		"alm-examples":   "[]", // there is no kind of its own
		"capabilities":   "Basic Install",
		"categories":     "Security",
		"containerImage": r.Image,
		"createdAt":      r.Created.Format(time.RFC3339),
		"description":    summary,
		"repository":     repository,
		"support":        "The mirrorset-guard authors",
		"olm.skipRange":  r.skipRange(),
		"operatorframework.io/cluster-monitoring":  "true",
		"operatorframework.io/suggested-namespace": name,
		// The labels of manifests/base/namespace.yaml, which the console sets on the namespace.
		"operatorframework.io/suggested-namespace-template": `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"` + name + `","labels":{"openshift.io/cluster-monitoring":"true","pod-security.kubernetes.io/enforce":"restricted","security.openshift.io/scc.podSecurityLabelSync":"false"}}}`,
	}
	for feature, value := range features {
		all["features.operators.openshift.io/"+feature] = value
	}
	return all
}

// Where OLM mounts the certificate for the webhooks that it makes, in all versions
// (operator-lifecycle-manager, pkg/controller/install/certresources.go; operator-controller,
// internal/operator-controller/rukpak/render/registryv1/generators).
const certificateDir = "/tmp/k8s-webhook-server/serving-certs"

// deployment returns the Deployment of the base, in three points changed: it runs r's image; it serves
// reviews with OLM's certificate, and metrics with that of the service CA, which Prometheus trusts; and its
// configuration is a ConfigMap of the bundle, over which one that an administrator makes is laid, as OLM would
// put back what somebody changes in its own.
func deployment(base objects.All, r Release) (objects.Object, error) {
	d, err := base.Find("Deployment", name)
	if err != nil {
		return nil, err
	}
	pod := d.At("spec", "template", "spec")
	containers := pod.List("containers")
	if len(containers) != 1 {
		return nil, errors.New("manifests/base: the Deployment has not one container")
	}
	containers[0]["image"] = r.Image
	if err := serveByOLM(containers[0]); err != nil {
		return nil, err
	}
	if err := layConfiguration(pod); err != nil {
		return nil, err
	}
	return objects.Object{"name": name, "label": d.At("metadata")["labels"], "spec": d["spec"]}, nil
}

const tlsFlag = "--tls-dir="

func serveByOLM(container objects.Object) error {
	args, _ := container["args"].([]any)
	for i, arg := range args {
		if dir, is := strings.CutPrefix(fmt.Sprint(arg), tlsFlag); is {
			args[i] = tlsFlag + certificateDir
			container["args"] = append(args, "--metrics-tls-dir="+dir)
			return nil
		}
	}
	return fmt.Errorf("manifests/base: the Deployment is without %s", tlsFlag)
}

// Of two sources with a file of the same name, a projected volume has that of the later one
// (k8s.io/kubernetes, pkg/volume/projected/projected.go, collectData).
func layConfiguration(pod objects.Object) error {
	for _, volume := range pod.List("volumes") {
		if volume["name"] != "config" {
			continue
		}
		settings, _ := volume.At("configMap")["name"].(string)
		delete(volume, "configMap")
		volume["projected"] = objects.Object{"sources": []any{
			objects.Object{"configMap": objects.Object{"name": defaults}},
			objects.Object{"configMap": objects.Object{"name": settings, "optional": true}},
		}}
		return nil
	}
	return errors.New("manifests/base: the Deployment is without the volume config")
}

// webhookDefinitions returns the webhooks of the base. OLM uses their names for those of the webhooks and, with
// more behind them, of a configuration for each. The base must not have more than a definition can say.
func webhookDefinitions(base objects.All) ([]any, error) {
	configuration, err := base.Find("ValidatingWebhookConfiguration", name)
	if err != nil {
		return nil, err
	}
	var definitions []any
	for _, hook := range configuration.List("webhooks") {
		service := hook.At("clientConfig", "service")
		definition := objects.Object{
			"type":           "ValidatingAdmissionWebhook",
			"generateName":   hook["name"],
			"deploymentName": name,
			"containerPort":  service["port"],
			"targetPort":     "webhook",
			"webhookPath":    service["path"],
		}
		for key, value := range hook {
			switch key {
			case "name", "clientConfig":
			case "rules", "failurePolicy", "matchPolicy", "sideEffects", "timeoutSeconds", "admissionReviewVersions", "objectSelector":
				definition[key] = value
			default:
				return nil, fmt.Errorf("manifests/base: webhook %s has %s, which OLM does not know", hook["name"], key)
			}
		}
		definitions = append(definitions, definition)
	}
	return definitions, nil
}

// clusterPermissions returns the rights of the base. OLM knows no Role in another namespace than its own, so
// the rights of those are for the whole cluster here, limited by the same names.
func clusterPermissions(base objects.All) (objects.Object, error) {
	var rules []any
	for _, o := range base {
		elsewhere := o.Kind() == "Role" && o.Namespace() != name
		if elsewhere || o.Kind() == "ClusterRole" && o.Name() == name {
			own, _ := o["rules"].([]any)
			rules = append(rules, own...)
		}
	}
	if len(rules) == 0 {
		return nil, errors.New("manifests/base grants no rights")
	}
	return objects.Object{"serviceAccountName": name, "rules": rules}, nil
}

// readIcon returns the picture that consoles show.
func readIcon(root string) ([]byte, error) {
	return os.ReadFile(filepath.Join(root, "manifests", "olm", "icon.svg"))
}

func compareObjects(a, b objects.Object) int {
	return cmp.Or(cmp.Compare(a.Kind(), b.Kind()), cmp.Compare(a.Name(), b.Name()))
}
