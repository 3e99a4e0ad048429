package stage

import (
	"fmt"
	"strings"
)

// A Pool is a MachineConfigPool of the stage. Nodes are in it by label
// node-role.kubernetes.io/NAME; "master" and "worker" are those of an installed cluster,
// and others are custom ones, which select the workers' MachineConfigs as well.
type Pool struct {
	Name string
	// MaxUnavailable is as in the pool's spec: "2", "10%"; "" for MCO's default of 1.
	MaxUnavailable string
	Paused         bool
}

// manifest returns the pool. A built-in one comes with what the template controller makes for
// it, as much as matters here: the registries.conf that is overridden.
func (p Pool) manifest() string {
	builtIn, selector := "", fmt.Sprintf("matchExpressions: [{key: machineconfiguration.openshift.io/role, operator: In, values: [worker, %s]}]", p.Name)
	base := ""
	if p.Name == "master" || p.Name == "worker" {
		builtIn = `machineconfiguration.openshift.io/mco-built-in: ""`
		selector = "matchLabels: {machineconfiguration.openshift.io/role: " + p.Name + "}"
		base = strings.ReplaceAll(baseConfig, "POOL", p.Name)
	}
	spec := ""
	if p.MaxUnavailable != "" {
		spec += "\n  maxUnavailable: " + p.MaxUnavailable
	}
	if p.Paused {
		spec += "\n  paused: true"
	}
	return fmt.Sprintf(`
apiVersion: machineconfiguration.openshift.io/v1
kind: MachineConfigPool
metadata:
  name: %s
  labels: {%s}
spec:
  machineConfigSelector: {%s}
  nodeSelector: {matchLabels: {node-role.kubernetes.io/%s: ""}}%s
%s`, p.Name, builtIn, selector, p.Name, spec, base)
}

const baseConfig = `---
apiVersion: machineconfiguration.openshift.io/v1
kind: MachineConfig
metadata:
  name: 00-POOL
  labels: {machineconfiguration.openshift.io/role: POOL}
spec:
  config:
    ignition: {version: 3.4.0}
    storage:
      files:
      - path: /etc/containers/registries.conf
        mode: 420
        overwrite: true
        contents:
          source: "data:,unqualified-search-registries%20%3D%20%5B%27registry.access.redhat.com%27%2C%20%27docker.io%27%5D%0A"
`
