package gitops

import (
	"fmt"
	"testing"

	lua "github.com/yuin/gopher-lua"
	"sigs.k8s.io/yaml"
)

// TestHealth: Argo CD's health checks, run as Argo CD runs them (util/lua/lua.go): with the libraries
// base and table, and the object as obj.
func TestHealth(t *testing.T) {
	scripts := decode[struct{ Data map[string]string }](t, example(t, "argocd", "argocd-cm.yaml")).Data
	const sets, pools = "config.openshift.io_ImageTagMirrorSet", "machineconfiguration.openshift.io_MachineConfigPool"
	if got := scripts["resource.customizations.health.config.openshift.io_ImageDigestMirrorSet"]; got == "" || got != scripts["resource.customizations.health."+sets] {
		t.Errorf("ImageDigestMirrorSets have another check:\n%s", got)
	}
	updated := "status: {observedGeneration: 3, machineCount: 3, updatedMachineCount: 3, conditions: [{type: Updated, status: 'True'}, {type: Degraded, status: 'False'}]}"
	for _, tc := range []struct{ reason, kind, object, want string }{
		{"in force", sets, "metadata: {name: a}", "Healthy: "},
		{"marked", sets, "metadata: {deletionTimestamp: '2026-01-01T00:00:00Z', finalizers: [x]}", "Progressing: being deleted; it stays in force until its finalizers are gone"},
		{"overridden", sets, "metadata: {annotations: {mirrorset-guard.io/override: 'a1: because'}}", "Healthy: admitted against mirrorset-guard: a1: because"},
		{"new", pools, "metadata: {generation: 1}", "Progressing: waiting for the Machine Config Operator"},
		{"without conditions", pools, "{metadata: {generation: 1}, status: {machineCount: 2}}", "Progressing: waiting for the Machine Config Operator"},
		{"updated", pools, "metadata: {generation: 3}\n" + updated, "Healthy: 3 of 3 machines are updated"},
		{"updated, before MCO has seen what is new", pools, "metadata: {generation: 4}\n" + updated, "Progressing: 3 of 3 machines are updated"},
		{"paused", pools, "metadata: {generation: 3}\nspec: {paused: true}\n" + updated, "Suspended: paused; 3 of 3 machines are updated"},
		{"on its way", pools, "{metadata: {generation: 3}, status: {observedGeneration: 3, machineCount: 3, updatedMachineCount: 1, conditions: [{type: Updated, status: 'False'}, {type: Updating, status: 'True'}]}}", "Progressing: 1 of 3 machines are updated"},
		{"degraded", pools, "{metadata: {generation: 3}, status: {observedGeneration: 3, conditions: [{type: NodeDegraded, status: 'True', message: 'node a: failed to drain'}, {type: Degraded, status: 'True'}]}}", "Degraded: NodeDegraded: node a: failed to drain"},
		{"degraded without a message", pools, "{metadata: {generation: 3}, status: {conditions: [{type: Degraded, status: 'True'}]}}", "Degraded: Degraded: "},
		{"no machines", pools, "{metadata: {generation: 1}, status: {observedGeneration: 1, machineCount: 0, conditions: [{type: Updated, status: 'True'}]}}", "Healthy: 0 of 0 machines are updated"},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			var object map[string]any
			must(t, yaml.Unmarshal([]byte(tc.object), &object))
			if got := health(t, scripts["resource.customizations.health."+tc.kind], object); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}

// health runs a check and returns its status and message.
func health(t *testing.T, script string, object map[string]any) string {
	t.Helper()
	l := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer l.Close()
	l.SetContext(t.Context())
	for name, open := range map[string]lua.LGFunction{lua.BaseLibName: lua.OpenBase, lua.TabLibName: lua.OpenTable} {
		must(t, l.CallByParam(lua.P{Fn: l.NewFunction(open), Protect: true}, lua.LString(name)))
	}
	l.SetGlobal("obj", luaValue(l, object))
	must(t, l.DoString(script))
	hs, ok := l.Get(-1).(*lua.LTable)
	if !ok {
		t.Fatalf("the check returns %v", l.Get(-1))
	}
	return fmt.Sprintf("%s: %s", hs.RawGetString("status"), hs.RawGetString("message"))
}

func luaValue(l *lua.LState, value any) lua.LValue {
	switch v := value.(type) {
	case bool:
		return lua.LBool(v)
	case float64:
		return lua.LNumber(v)
	case string:
		return lua.LString(v)
	case []any:
		table := l.NewTable()
		for _, item := range v {
			table.Append(luaValue(l, item))
		}
		return table
	case map[string]any:
		table := l.NewTable()
		for key, item := range v {
			table.RawSetString(key, luaValue(l, item))
		}
		return table
	default:
		return lua.LNil
	}
}
