package images

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// An Accounts value says how much an Index may conclude from the service accounts that it
// knows.
type Accounts int

const (
	// SomeAccounts means that there may be others. It is the zero value: a dump seldom
	// holds all.
	SomeAccounts Accounts = iota
	// AllAccounts means that there are no others.
	AllAccounts
	// StaleAccounts means that they may have changed since.
	StaleAccounts
)

// accounts are the service accounts of a cluster. The zero value knows none.
type accounts struct {
	state Accounts
	named map[objectKey]bool // whether each names a pull secret of its own
}

// pullSecret reports whether an account gives its pods a pull secret other than OpenShift's
// own. Where that is unknown, both results are true: such pods may be able to pull what is
// private to others.
func (a accounts) pullSecret(key objectKey) (own, unknown bool) {
	own, found := a.named[key]
	switch {
	case own:
		return true, false
	case a.state == StaleAccounts, a.state == SomeAccounts && !found:
		return true, true
	default:
		return false, false
	}
}

// accountOf returns the service account that a pod made from spec gets its pull secrets
// from, "" if it names some of its own: those of the account are not added to them
// (k8s.io/kubernetes/plugin/pkg/admission/serviceaccount, Admit).
func accountOf(spec *corev1.PodSpec) string {
	if len(spec.ImagePullSecrets) > 0 {
		return ""
	}
	return cmp.Or(spec.ServiceAccountName, spec.DeprecatedServiceAccount, "default")
}

// HasPullSecret reports whether a service account has a pull secret other than the one that
// OpenShift adds.
func HasPullSecret(account *corev1.ServiceAccount) bool {
	return slices.ContainsFunc(account.ImagePullSecrets, func(s corev1.LocalObjectReference) bool {
		return isOwnPullSecret(s.Name, account.Name)
	})
}

// isOwnPullSecret tells a pull secret from the one for the internal registry that
// OpenShift gives every service account, and so every pod ("default-dockercfg-x7k2p").
func isOwnPullSecret(name, account string) bool {
	if name == "" {
		return false
	}
	generated := generatedSecret.FindStringSubmatch(name)
	return generated == nil || !strings.HasPrefix(account, generated[1])
}

// generatedSecret matches what openshift-controller-manager makes of an account's name
// (getDockercfgSecretNamePrefix), followed by what the API server adds to generated names.
// A long account name is cut and followed by a hash.
var generatedSecret = regexp.MustCompile(`^(.+?)(?:-[0-9a-f]{8})?-dockercfg-[a-z0-9]+$`)
