package snapshot

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

func poolWith(name, config string, sources ...string) string {
	from := make([]string, len(sources))
	for i, s := range sources {
		from[i] = "{name: " + s + "}"
	}
	return fmt.Sprintf(`
apiVersion: machineconfiguration.openshift.io/v1
kind: MachineConfigPool
metadata: {name: %s}
spec: {configuration: {name: %s, source: [%s]}}
---`, name, config, strings.Join(from, ", "))
}

func nodeWith(config string) string {
	return fmt.Sprintf("\napiVersion: v1\nkind: Node\nmetadata: {name: a, annotations: {machineconfiguration.openshift.io/currentConfig: %s}}\n---", config)
}

func machineConfigWith(name, role, file, content string) string {
	return fmt.Sprintf(`
apiVersion: machineconfiguration.openshift.io/v1
kind: MachineConfig
metadata: {name: %s, labels: {machineconfiguration.openshift.io/role: %q}}
spec: {config: {ignition: {version: 3.5.0}, storage: {files: [{path: %s, contents: {source: "data:;base64,%s"}}]}}}
---`, name, role, file, base64.StdEncoding.EncodeToString([]byte(content)))
}

// TestDropInsOfRenderedConfigs: what MCO has rendered tells of files whose MachineConfigs the dump lacks;
// and where it has neither, that is said.
func TestDropInsOfRenderedConfigs(t *testing.T) {
	const house, other = "/etc/containers/registries.conf.d/house.conf", "/etc/containers/registries.conf.d/other.conf"
	rendered := func(pool string) string {
		return machineConfigWith("rendered-"+pool+"-1", "", house, "text of the house")
	}
	for _, tt := range []struct {
		name, dump string
		want       []string // of files: MachineConfig role path
		note       string
	}{
		{"only rendered", poolWith("worker", "rendered-worker-1", "00-worker", "50-house") + rendered("worker"), []string{"rendered-worker-1 worker " + house}, ""},
		{"the pool says it later", rendered("worker") + poolWith("worker", "rendered-worker-1"), []string{"rendered-worker-1 worker " + house}, ""},
		{"of masters", poolWith("master", "rendered-master-1") + rendered("master"), []string{"rendered-master-1 master " + house}, ""},
		{"the pool is not there, and a node has it", nodeWith("rendered-worker-1") + rendered("worker"), []string{"rendered-worker-1 worker " + house}, ""},
		{"its MachineConfig is there", poolWith("worker", "rendered-worker-1") + rendered("worker") + machineConfigWith("50-house", "worker", house, "text of the house"), []string{"50-house worker " + house}, ""},
		{"that of workers is there", poolWith("gpu", "rendered-gpu-1") + rendered("gpu") + machineConfigWith("50-house", "worker", house, "text of the house"), []string{"50-house worker " + house}, ""},
		{"that of workers is not for masters", poolWith("master", "rendered-master-1") + rendered("master") + machineConfigWith("50-house", "worker", house, "text of the house"), []string{"50-house worker " + house, "rendered-master-1 master " + house}, ""},
		{"another file", poolWith("worker", "rendered-worker-1") + rendered("worker") + machineConfigWith("50-other", "worker", other, "x"), []string{"50-other worker " + other, "rendered-worker-1 worker " + house}, ""},
		{"what MCO generates", poolWith("worker", "rendered-worker-1") + machineConfigWith("rendered-worker-1", "", mirrors.SearchDropInPath, "x"), nil, ""},
		{"neither", poolWith("worker", "rendered-worker-1", "00-worker", "01-worker-kubelet", "99-worker-ssh", "99-worker-generated-registries", "50-house"), nil, "lacks 1 MachineConfig from which pools are rendered (50-house)"},
		{"none that matters", poolWith("worker", "rendered-worker-1", "00-worker", "99-worker-generated-registries"), nil, ""},
		{"all are there", poolWith("worker", "rendered-worker-1", "50-house") + machineConfigWith("50-house", "worker", "/etc/motd", "x"), nil, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, err := ReadFrom(strings.NewReader(tt.dump), "dump")
			if err != nil {
				t.Fatal(err)
			}
			set, err := s.Mirrors(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, f := range set.Files {
				got = append(got, f.MachineConfig+" "+f.Role+" "+f.Path)
			}
			slices.Sort(got)
			if !slices.Equal(got, tt.want) {
				t.Errorf("files %q, want %q", got, tt.want)
			}
			if notes := strings.Join(s.Notes(), "\n"); strings.Contains(notes, "registries.conf files") != (tt.note != "") || !strings.Contains(notes, tt.note) {
				t.Errorf("notes: %s", notes)
			}
		})
	}
}
