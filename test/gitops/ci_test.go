package gitops

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/test/skip"
)

// A pipeline is what a recipe runs, in a repository with mirror sets. It gets the program and the snapshot
// from a server.
type pipeline struct {
	*stage
	repository string
	server     *httptest.Server
	// age is that of the snapshot, in seconds.
	age atomic.Int64
}

func newPipeline(t *testing.T, s *stage, set string) *pipeline {
	t.Helper()
	for _, tool := range []string{"bash", "curl", "git", "sha256sum", "tar"} {
		if _, err := exec.LookPath(tool); err != nil {
			skip.Now(t, err)
		}
	}
	p := &pipeline{stage: s, repository: t.TempDir()}
	must(t, os.Mkdir(filepath.Join(p.repository, "mirrors"), 0o700))
	p.write(t, "mirrors/shop.yaml", "# the shop\n---\n"+set)
	p.server = httptest.NewServer(http.HandlerFunc(p.download))
	t.Cleanup(p.server.Close)
	p.mustRun(t, "git init -q && git add -A && git -c user.name=x -c user.email=x@example.com commit -qm all")
	return p
}

func (p *pipeline) write(t *testing.T, name, text string) {
	t.Helper()
	must(t, os.WriteFile(filepath.Join(p.repository, name), []byte(text), 0o600))
}

// download serves a release with a program, which passes on how to reach the registries of the test, and
// the snapshot.
func (p *pipeline) download(w http.ResponseWriter, r *http.Request) {
	switch filepath.Base(r.URL.Path) {
	case "cluster.json":
		w.Header().Set("Last-Modified", time.Now().Add(-time.Duration(p.age.Load())*time.Second).UTC().Format(http.TimeFormat))
		_, _ = w.Write([]byte(shop() + pullSecret))
	case "mirrorset-guard_v0.1.0_linux_amd64.tar.gz":
		http.ServeFile(w, r, filepath.Join(p.dir, "release.tar.gz"))
	case "SHA256SUMS":
		http.ServeFile(w, r, filepath.Join(p.dir, "SHA256SUMS"))
	default:
		http.NotFound(w, r)
	}
}

const pullSecret = "---\napiVersion: v1\nkind: Secret\nmetadata: {namespace: openshift-config, name: pull-secret}\ntype: kubernetes.io/dockerconfigjson\ndata: {.dockerconfigjson: e30=}\n"

// release makes the archive that pipelines install, and puts the program into a folder of the PATH.
func (s *stage) release(t *testing.T) {
	t.Helper()
	bin := filepath.Join(s.dir, "bin")
	must(t, os.Mkdir(bin, 0o700))
	script := "#!/bin/bash\ncommand=$1; shift\nexec '" + s.binary + "' \"$command\" \"$@\" '" + strings.Join(s.registryFlags(), "' '") + "'\n"
	must(t, os.WriteFile(filepath.Join(bin, "mirrorset-guard"), []byte(script), 0o700))
	cmd := exec.CommandContext(t.Context(), "bash", "-c", `cd "$1" && tar -czf release.tar.gz -C bin mirrorset-guard && echo "$(sha256sum < release.tar.gz | cut -d' ' -f1)  mirrorset-guard_v0.1.0_linux_amd64.tar.gz" > SHA256SUMS`, "bash", s.dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// run runs a script in the repository as pipelines do.
func (p *pipeline) run(t *testing.T, script string, environment ...string) (string, int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script)
	cmd.Dir = p.repository
	cmd.Env = append(append(os.Environ(), "PATH="+filepath.Join(p.dir, "bin")+":"+os.Getenv("PATH"), "SNAPSHOT="+p.server.URL+"/cluster.json", "RELEASES="+p.server.URL, "VERSION=v0.1.0", "KUBECONFIG=none"), environment...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	_ = cmd.Run() // its exit code is the answer
	return out.String(), cmd.ProcessState.ExitCode()
}

func (p *pipeline) mustRun(t *testing.T, script string) {
	t.Helper()
	if out, code := p.run(t, script); code != 0 {
		t.Fatalf("exit code %d\n%s", code, out)
	}
}

func (p *pipeline) read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(p.repository, name))
	if err != nil {
		t.Error(err)
	}
	return string(data)
}

func (s *stage) testGitHub(t *testing.T) {
	workflow := decode[struct {
		Jobs struct {
			Check struct {
				Steps []struct{ Name, Run, Uses string } `json:"steps"`
			} `json:"check"`
		} `json:"jobs"`
	}](t, example(t, "github", "check-mirrors.yaml"))
	steps := map[string]string{}
	for _, step := range workflow.Jobs.Check.Steps {
		steps[step.Name] = step.Run
	}
	p := newPipeline(t, s, refusedSet("shop"))
	p.mustRun(t, steps["install"])
	p.mustRun(t, steps["snapshot"])
	if out, code := p.run(t, steps["check"]); code != 1 || !strings.Contains(out, "ImageTagMirrorSet shop is refused") {
		t.Errorf("exit code %d\n%s", code, out)
	}
	// What annotates the pull request: each of the images, at the source.
	var report struct {
		Runs []struct {
			Results []struct {
				RuleID    string
				Locations []struct {
					PhysicalLocation struct {
						ArtifactLocation struct{ URI string }
						Region           struct{ StartLine, StartColumn, EndColumn int }
					}
				}
			}
		}
	}
	must(t, json.Unmarshal([]byte(p.read(t, "report.sarif")), &report))
	if n := len(report.Runs[0].Results); n < len(shopImages) {
		t.Errorf("%d results", n)
	}
	for _, result := range report.Runs[0].Results[:len(shopImages)] {
		at := result.Locations[0].PhysicalLocation
		if at.ArtifactLocation.URI != "mirrors/shop.yaml" || at.Region.StartLine != 6 || at.Region.StartColumn != 35 || at.Region.EndColumn != 47 {
			t.Errorf("%s is at %+v", result.RuleID, at)
		}
	}
	// What GitHub's program is given.
	must(t, os.WriteFile(filepath.Join(s.dir, "bin", "gh"), []byte("#!/bin/bash\necho \"$@\"\n"), 0o700))
	if out, code := p.run(t, steps["comment"], "NUMBER=7"); code != 0 || out != "pr comment 7 --body-file report.md --edit-last --create-if-none\n" || !strings.HasPrefix(p.read(t, "report.md"), "### Denied: ` ImageTagMirrorSet shop `") {
		t.Errorf("exit code %d\n%s", code, out)
	}

	p.write(t, "mirrors/shop.yaml", goodSet("shop"))
	if out, code := p.run(t, steps["check"]); code != 0 || !strings.Contains(out, "is admitted") {
		t.Errorf("a good change: exit code %d\n%s", code, out)
	}
	p.age.Store(25 * 3600)
	if out, code := p.run(t, steps["snapshot"]); code != 2 || !strings.Contains(out, "the snapshot is older than a day: ") {
		t.Errorf("an old snapshot: exit code %d\n%s", code, out)
	}
	must(t, os.WriteFile(filepath.Join(s.dir, "SHA256SUMS"), []byte(strings.Repeat("0", 64)+"  mirrorset-guard_v0.1.0_linux_amd64.tar.gz\n"), 0o600))
	defer func() {
		must(t, os.RemoveAll(filepath.Join(s.dir, "bin")))
		s.release(t)
	}()
	if out, code := p.run(t, "rm mirrorset-guard\n"+steps["install"]); code == 0 || !strings.Contains(out, "FAILED") {
		t.Errorf("another archive: exit code %d\n%s", code, out)
	}
}

func (s *stage) testGitLab(t *testing.T) {
	job := decode[map[string]struct {
		Before []string `json:"before_script"`
		Script []string `json:"script"`
	}](t, example(t, "gitlab", ".gitlab-ci.yml"))["check-mirrors"]
	p := newPipeline(t, s, refusedSet("shop"))
	script := strings.Join(append(job.Before, job.Script...), "\n") // GitLab joins them
	if out, code := p.run(t, script, "CI_JOB_TOKEN=x"); code != 1 || !strings.Contains(out, "ImageTagMirrorSet shop is refused") {
		t.Errorf("exit code %d\n%s", code, out)
	}
	if report := p.read(t, "report.xml"); strings.Count(report, "<failure ") != len(shopImages) {
		t.Errorf("the report has not a failure for each image:\n%s", report)
	}
	p.age.Store(25 * 3600)
	if out, code := p.run(t, script, "CI_JOB_TOKEN=x"); code != 2 || !strings.Contains(out, "the snapshot is older than a day") {
		t.Errorf("an old snapshot: exit code %d\n%s", code, out)
	}
}

func (s *stage) testTekton(t *testing.T) {
	task := decode[struct {
		Spec struct {
			Steps []struct {
				Name, Script  string
				Command, Args []string
			}
		}
	}](t, example(t, "tekton", "task.yaml"))
	p := newPipeline(t, s, refusedSet("shop"))
	fetch, check := task.Spec.Steps[0], task.Spec.Steps[1]
	p.mustRun(t, fetch.Script)
	if command := check.Command[0]; command != "/mirrorset-guard" {
		t.Errorf("%s is not in the image", command)
	}
	line := strings.ReplaceAll("mirrorset-guard "+strings.Join(check.Args, " "), "$(params.path)", "mirrors")
	if out, code := p.run(t, line); code != 1 || !strings.Contains(p.read(t, "report.sarif"), `"NotFullySynced"`) {
		t.Errorf("exit code %d\n%s", code, out)
	}
	p.age.Store(25 * 3600)
	if out, code := p.run(t, fetch.Script); code != 2 {
		t.Errorf("an old snapshot: exit code %d\n%s", code, out)
	}
}

func (s *stage) testPreCommit(t *testing.T) {
	config := decode[struct {
		Repos []struct {
			Hooks []struct{ Entry string }
		}
	}](t, example(t, "pre-commit", ".pre-commit-config.yaml"))
	p := newPipeline(t, s, refusedSet("shop"))
	entry := config.Repos[0].Hooks[0].Entry
	if out, code := p.run(t, entry); code != 2 || !strings.Contains(out, "no cluster") {
		t.Errorf("without a snapshot: exit code %d\n%s", code, out)
	}
	p.mustRun(t, `curl -fsSo cluster.json "$SNAPSHOT"`)
	if out, code := p.run(t, entry); code != 1 {
		t.Errorf("exit code %d\n%s", code, out)
	}
}

// testGitHook: what is staged is checked, whatever lies in the folder.
func (s *stage) testGitHook(t *testing.T) {
	p := newPipeline(t, s, goodSet("shop"))
	p.write(t, ".git/hooks/pre-commit", string(example(t, "pre-commit", "pre-commit")))
	p.mustRun(t, `chmod +x .git/hooks/pre-commit; git config user.name x; git config user.email x@example.com; curl -fsSo cluster.json "$SNAPSHOT"`)
	p.write(t, "mirrors/shop.yaml", refusedSet("shop"))
	if out, code := p.run(t, "git commit -qam refused"); code == 0 || !strings.Contains(out, "ImageTagMirrorSet shop is refused") {
		t.Errorf("exit code %d\n%s", code, out)
	}
	p.mustRun(t, "git add mirrors")
	p.write(t, "mirrors/shop.yaml", goodSet("shop"))
	if out, code := p.run(t, "git commit -qm staged"); code == 0 {
		t.Errorf("what is staged is refused: exit code %d\n%s", code, out)
	}
	p.write(t, "mirrors/shop.yaml", goodSet("shop")+"# more\n")
	p.mustRun(t, "git add mirrors && git commit -qm good")
	p.write(t, "README.md", "")
	p.mustRun(t, "rm cluster.json; git add README.md && git commit -qm 'no mirror set'")
}
