package gitops

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"

	"github.com/mirrorset-guard/mirrorset-guard/test/repo"
)

const refusal = `admission webhook "mirrorsets.mirrorset-guard.io" denied the request: ImageTagMirrorSet shop is refused: all 3 images it reroutes could not be pulled safely afterwards.`

// What the tools of GitOps ask an API server before they change anything is answered by the guard, in its
// words; and nothing is changed.

// testArgoCD: with ServerSideDiff, Argo CD compares by a server-side apply in a dry run, as its own field
// manager (gitops-engine, pkg/diff/diff.go, serverSideDiff).
func (s *stage) testArgoCD(t *testing.T) {
	app := decode[struct {
		Metadata struct{ Annotations map[string]string }
		Spec     struct {
			SyncPolicy struct{ SyncOptions []string }
		}
	}](t, example(t, "argocd", "application.yaml"))
	if app.Metadata.Annotations["argocd.argoproj.io/compare-options"] != "ServerSideDiff=true" {
		t.Errorf("%+v", app)
	}
	folder := filepath.Join(repo.Root(), "examples", "argocd", "mirrors")
	built, err := s.cluster.Kubectl(t.Context(), "", "kustomize", folder)
	must(t, err)
	dryRun := func(text string) (string, error) {
		return s.cluster.Kubectl(t.Context(), text, "apply", "--server-side", "--force-conflicts", "--field-manager", "argocd-controller", "--dry-run=server", "--validate=strict", "-f", "-")
	}
	out, err := dryRun(built)
	if err != nil || strings.Count(out, "serverside-applied (server dry run)") != 6 || !strings.Contains(out, "Warning: ImageTagMirrorSet shop reroutes 3 of 3 images") {
		t.Errorf("%v\n%s", err, out)
	}
	// The wave of the Job comes after that of what it waits for, and it waits for those very files.
	for _, doc := range documents(t, []byte(built)) {
		o := decode[struct {
			Kind     string
			Metadata struct{ Annotations map[string]string }
			Data     map[string]string
		}](t, doc)
		wave := o.Metadata.Annotations["argocd.argoproj.io/sync-wave"]
		switch o.Kind {
		case "Job":
			if wave != "-5" || !strings.Contains(string(doc), "/mirrors/imagetagmirrorset.yaml") {
				t.Errorf("the Job:\n%s", doc)
			}
			s.checkWatch(t, folder, decode[batchv1.Job](t, doc).Spec.Template.Spec.Containers[0].Args)
		case "ConfigMap":
			if o.Data["imagetagmirrorset.yaml"] != string(example(t, "argocd", "mirrors", "imagetagmirrorset.yaml")) {
				t.Errorf("the ConfigMap:\n%s", doc)
			}
		default:
			if wave != "-10" {
				t.Errorf("%s is in wave %q", o.Kind, wave)
			}
		}
	}
	refused := strings.Replace(string(example(t, "argocd", "mirrors", "imagetagmirrorset.yaml")), "example.com/shop]", "example.com/empty]", 1)
	if out, err := dryRun(refused); err == nil || !strings.Contains(out, refusal) {
		t.Errorf("%v\n%s", err, out)
	}
	s.wantNone(t)
}

// checkWatch runs what the Job runs, on this cluster, which has no MCO: it reads the files, and says that
// there is nothing to wait for.
func (s *stage) checkWatch(t *testing.T, folder string, args []string) {
	t.Helper()
	for i := range args {
		args[i] = strings.Replace(args[i], "/mirrors/", folder+"/", 1)
	}
	cmd := exec.CommandContext(t.Context(), s.binary, append(args, "--kubeconfig", s.cluster.Kubeconfig)...)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState.ExitCode() != 2 || !strings.Contains(string(out), "no MachineConfigPools") {
		t.Errorf("%q: %v\n%s", args, err, out)
	}
}

// testACM: the controller on a managed cluster updates and creates in a dry run
// (config-policy-controller, controllers/configurationpolicy_controller.go).
func (s *stage) testACM(t *testing.T) {
	policy := decode[struct {
		Spec struct {
			Templates []struct {
				Definition struct {
					Spec struct {
						Templates []struct {
							ComplianceType   string         `json:"complianceType"`
							ObjectDefinition map[string]any `json:"objectDefinition"`
						} `json:"object-templates"`
					} `json:"spec"`
				} `json:"objectDefinition"`
			} `json:"policy-templates"`
		} `json:"spec"`
	}](t, documents(t, example(t, "acm", "policy.yaml"))[0])
	template := policy.Spec.Templates[0].Definition.Spec.Templates[0]
	data, err := json.Marshal(template.ObjectDefinition)
	must(t, err)
	object := strings.Replace(string(data), "mirror.example.com/shop", "mirror.example.com/empty", 1) // on a cluster whose mirror lacks the images
	out, err := s.cluster.Kubectl(t.Context(), object, "create", "--dry-run=server", "--validate=strict", "-f", "-")
	if err == nil || !strings.Contains(out, refusal) || template.ComplianceType != "mustonlyhave" {
		t.Errorf("%v\n%s", err, out)
	}
	// Another object of that name is there: it is compared by an update.
	s.apply(t, goodSet("shop"))
	defer func() {
		_, err := s.cluster.Kubectl(t.Context(), "", "delete", "imagetagmirrorset", "shop")
		must(t, err)
	}()
	out, err = s.cluster.Kubectl(t.Context(), object, "replace", "--dry-run=server", "--validate=strict", "-f", "-")
	if err == nil || !strings.Contains(out, `denied the request: ImageTagMirrorSet shop is refused`) {
		t.Errorf("%v\n%s", err, out)
	}
}

// testFlux: kustomize-controller applies everything in a dry run first (fluxcd/pkg/ssa, manager_apply.go).
func (s *stage) testFlux(t *testing.T) {
	names := map[string]string{}
	for _, doc := range documents(t, example(t, "flux", "kustomization.yaml")) {
		o := decode[struct {
			Kind     string
			Metadata struct{ Name string }
			Spec     struct {
				Path      string
				DependsOn []struct{ Name string }
				SourceRef struct{ Kind, Name string }
			}
		}](t, doc)
		names[o.Kind+" "+o.Metadata.Name] = o.Spec.Path
		if ref := o.Spec.SourceRef; o.Kind == "Kustomization" && names[ref.Kind+" "+ref.Name] != "" || len(o.Spec.DependsOn) > 0 && names["Kustomization "+o.Spec.DependsOn[0].Name] == "" {
			t.Errorf("%s refers to what is not there", doc)
		}
	}
	folder := t.TempDir()
	must(t, os.WriteFile(filepath.Join(folder, "set.yaml"), []byte(refusedSet("shop")), 0o600))
	must(t, os.WriteFile(filepath.Join(folder, "kustomization.yaml"), []byte("resources: [set.yaml]\n"), 0o600))
	built, err := s.cluster.Kubectl(t.Context(), "", "kustomize", folder)
	must(t, err)
	out, err := s.cluster.Kubectl(t.Context(), built, "apply", "--server-side", "--field-manager", "kustomize-controller", "--dry-run=server", "-f", "-")
	if err == nil || !strings.Contains(out, refusal) {
		t.Errorf("%v\n%s", err, out)
	}
	s.wantNone(t)
}

// wantNone fails if there is a mirror set.
func (s *stage) wantNone(t *testing.T) {
	t.Helper()
	out, err := s.cluster.Kubectl(t.Context(), "", "get", "imagetagmirrorsets,imagedigestmirrorsets", "-o", "name")
	if err != nil || out != "" {
		t.Errorf("%v: there is %s", err, out)
	}
}
