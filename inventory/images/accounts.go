package images

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// An Accounts value is the completeness of the service accounts that an Index knows.
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

// An Account holds the pull secrets that a service account gives pods which name none themselves.
// OpenShift gives each account one for the internal registry, which opens no other. A name does
// not show that a secret is that one, as a user may choose it.
type Account struct {
	// Own is set if it gives one that a user must have set.
	Own bool
	// Unknown is set if it gives one that may be OpenShift's, or a user's.
	Unknown bool
	// Generated are the names of those that are known to be OpenShift's, separated by spaces.
	Generated string
}

// pullSecretRef is the annotation in which OpenShift names the pull secret that it has made for
// a service account, since 4.16 (openshift/openshift-controller-manager, pkg/internalregistry).
const pullSecretRef = "openshift.io/internal-registry-pull-secret-ref"

// AccountOf returns what a service account gives. The names in generated are those of secrets of
// its namespace that GeneratedFor says are for it.
func AccountOf(o *corev1.ServiceAccount, generated ...string) Account {
	if ref := o.Annotations[pullSecretRef]; mayBeGenerated(ref, o.Name) {
		generated = append(slices.Clone(generated), ref)
	}
	slices.Sort(generated)
	a := Account{Generated: strings.Join(slices.Compact(generated), " ")}
	for _, s := range o.ImagePullSecrets {
		switch {
		case s.Name == "", a.generates(s.Name):
		case mayBeGenerated(s.Name, o.Name):
			a.Unknown = true
		default:
			a.Own = true
		}
	}
	return a
}

// generates reports whether all of some names, separated by spaces, are those of secrets that are
// known to be OpenShift's.
func (a Account) generates(names string) bool {
	known := strings.Fields(a.Generated)
	return !slices.ContainsFunc(strings.Fields(names), func(name string) bool { return !slices.Contains(known, name) })
}

// GeneratedFor returns the service account for which OpenShift has made a pull secret, "" if it
// has not: by the secret's type, and by its owner, which annotations name.
func GeneratedFor(o *corev1.Secret) string {
	if o.Type != corev1.SecretTypeDockercfg {
		return ""
	}
	if o.Annotations["openshift.io/token-secret.name"] != "" { // up to 4.15
		return o.Annotations[corev1.ServiceAccountNameKey]
	}
	name := o.Annotations["openshift.io/internal-registry-auth-token.service-account"]
	owned := slices.ContainsFunc(o.OwnerReferences, func(r metav1.OwnerReference) bool { return r.Kind == "ServiceAccount" && r.Name == name })
	if !owned {
		return ""
	}
	return name
}

// accounts are the service accounts of a cluster. The zero value knows none.
type accounts struct {
	state Accounts
	named map[objectKey]Account
}

// pullSecret reports whether a pod has a pull secret other than OpenShift's own, given its
// account and, if it names secrets, those that may be OpenShift's. Where that is unknown, both
// results are true: such pods may be able to pull images that others may not.
func (a accounts) pullSecret(key objectKey, secrets string) (own, unknown bool) {
	account, found := a.named[key]
	switch {
	case a.state == StaleAccounts && (secrets != "" || !account.Own):
		return true, true
	case secrets != "":
		generated := found && account.generates(secrets)
		return !generated, !generated
	case account.Own:
		return true, false
	case account.Unknown, a.state == SomeAccounts && !found:
		return true, true
	default:
		return false, false
	}
}

// secretsOf returns where a pod made from spec gets its pull secrets from: secrets are those it
// names that may be OpenShift's, separated by spaces. If it names none, they are those of its
// account, which are not added to others (k8s.io/kubernetes/plugin/pkg/admission/serviceaccount,
// Admit). If it names one that a user must have set, own is true, and nothing else
// matters.
func secretsOf(spec *corev1.PodSpec) (account, secrets string, own bool) {
	account = cmp.Or(spec.ServiceAccountName, spec.DeprecatedServiceAccount, "default")
	var names []string
	for _, s := range spec.ImagePullSecrets {
		switch {
		case s.Name == "":
		case mayBeGenerated(s.Name, account):
			names = append(names, s.Name)
		default:
			return "", "", true
		}
	}
	if len(names) == 0 && len(spec.ImagePullSecrets) > 0 {
		account = ""
	}
	slices.Sort(names)
	return account, strings.Join(names, " "), false
}

// mayBeGenerated reports whether a pull secret has a name like those that OpenShift gives to the
// one it makes for a service account ("default-dockercfg-x7k2p"). One with another name is not it.
func mayBeGenerated(name, account string) bool {
	generated := generatedSecret.FindStringSubmatch(name)
	return generated != nil && strings.HasPrefix(account, generated[1])
}

// generatedSecret matches what openshift-controller-manager makes of an account's name
// (getDockercfgSecretNamePrefix), followed by what the API server adds to generated names.
// A long account name is cut and followed by a hash.
var generatedSecret = regexp.MustCompile(`^(.+?)(?:-[0-9a-f]{8})?-dockercfg-[a-z0-9]+$`)
