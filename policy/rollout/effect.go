package rollout

import (
	"fmt"
	"slices"
	"strings"

	operatorv1 "github.com/openshift/api/operator/v1"
)

// Effect is the strongest thing that MCO does on a node, apart from draining it.
type Effect int

// The effects, the weakest first.
const (
	// NoRollout: no file differs, and nodes stay as they are.
	NoRollout Effect = iota
	// FilesOnly: files are written, and nothing has to read them anew.
	FilesOnly
	// Reloads and Restarts are about services, such as CRI-O.
	Reloads
	Restarts
	Reboots
)

// Effect returns the strongest thing that happens.
func (d Decision) Effect() Effect {
	if len(d.Changed) == 0 {
		return NoRollout
	}
	effect := FilesOnly
	for _, a := range d.Actions {
		switch a.Type {
		case operatorv1.RebootStatusAction:
			return Reboots
		case operatorv1.RestartStatusAction:
			effect = Restarts
		case operatorv1.ReloadStatusAction, operatorv1.SpecialStatusAction, operatorv1.DaemonReloadStatusAction:
			effect = max(effect, Reloads)
		}
	}
	return effect
}

// String returns what MCO does as the end of a sentence about a node: "reloads CRI-O without
// a drain".
func (d Decision) String() string {
	var done []string
	switch d.Effect() {
	case NoRollout:
		return "changes no file"
	case FilesOnly:
		done = []string{"writes files"}
	case Reboots:
		done = []string{"reboots"}
	default:
		done = d.services()
	}
	if d.Drains && d.Effect() == FilesOnly {
		return "drains"
	}
	if d.Drains {
		return strings.Join(append([]string{"drains"}, done...), " and ")
	}
	return strings.Join(done, " and ") + " without a drain"
}

// services says which services are reloaded and which restarted, each once; a service that
// is restarted is not said to be reloaded.
func (d Decision) services() []string {
	var reloaded, restarted []string
	for _, a := range d.Actions {
		switch {
		case a.Type == operatorv1.SpecialStatusAction:
			reloaded = append(reloaded, serviceName(crioService))
		case a.Type == operatorv1.DaemonReloadStatusAction:
			reloaded = append(reloaded, "systemd")
		case a.Reload != nil:
			reloaded = append(reloaded, serviceName(a.Reload.ServiceName))
		case a.Restart != nil:
			restarted = append(restarted, serviceName(a.Restart.ServiceName))
		}
	}
	reloaded = slices.DeleteFunc(once(reloaded), func(s string) bool { return slices.Contains(restarted, s) })
	var done []string
	if len(reloaded) > 0 {
		done = append(done, "reloads "+strings.Join(reloaded, ", "))
	}
	if len(restarted) > 0 {
		done = append(done, "restarts "+strings.Join(once(restarted), ", "))
	}
	if len(done) == 0 { // the policy does not say which
		return []string{fmt.Sprintf("acts on %d services", len(d.Actions))}
	}
	return done
}

func once(names []string) []string {
	slices.Sort(names)
	return slices.Compact(names)
}

func serviceName(service operatorv1.NodeDisruptionPolicyServiceName) string {
	if service == crioService {
		return "CRI-O"
	}
	return string(service)
}
