// Package v1alpha1 is the home of the configuration file's format: GuardConfiguration. Package
// cmd/mirrorset-guard/config reads such files, and has the defaults.
//
// The schema, the explanations and the reference in the documentation are made from the types and
// their comments. A field is added without a new version; none changes its meaning or goes away.
package v1alpha1

import (
	_ "embed"
	"strings"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/internal/typedoc"
)

// The beginning of a configuration file.
const (
	APIVersion = "config.mirrorset-guard.io/v1alpha1"
	Kind       = "GuardConfiguration"
)

// A GuardConfiguration says how changes are judged and how registries are asked. What a file
// leaves out has its default.
type GuardConfiguration struct {
	// APIVersion is config.mirrorset-guard.io/v1alpha1.
	APIVersion string `json:"apiVersion"`
	// Kind is GuardConfiguration.
	Kind string `json:"kind"`
	// Mode says what becomes of a change that the rules deny. enforce refuses it. warn admits
	// it, with warnings that say what would have been denied. audit admits it in silence: only
	// the log, the metrics and the audit annotations tell. In warn and audit, a change about
	// which there is no verdict is admitted too.
	Mode Mode `json:"mode"`
	// ProtectedNamespaces are those whose images are looked up and named first, the most
	// important first, and whose denials nothing weakens by accident. A trailing * matches any
	// ending. The guard's own namespace is always one of them.
	ProtectedNamespaces []string `json:"protectedNamespaces" pattern:"^([*]|[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?|[a-z0-9][-a-z0-9]{0,61}[*])$"`
	// Severities replace what rules say by default. A key is the name of a rule, as in
	// messages, or RULE@protected for images of protected namespaces, which RULE alone can
	// make stricter and never weaker.
	Severities map[string]Severity `json:"severities"`
	// NamespaceSeverities are the greatest severities for images used only in some namespaces.
	// The first entry that matches counts. They never apply to protected namespaces.
	NamespaceSeverities []NamespaceSeverity `json:"namespaceSeverities"`
	// VerifyBlobs says for which images the layers are looked up, not only the manifest.
	VerifyBlobs BlobScope `json:"verifyBlobs"`
	// AllowSourceFallback admits, with a warning, an image that no mirror holds as long as its
	// source does and may be contacted: for a migration during which the mirror is being filled.
	AllowSourceFallback bool `json:"allowSourceFallback"`
	// Exemptions make warnings of denials. Each one that did is named in a warning, in the log
	// and in the audit annotations.
	Exemptions []Exemption `json:"exemptions"`
	// FactLifetime is how long an image that was found is assumed to be still there, from 0s to 24h; under a
	// tag, 2m at most. With less, it is noticed sooner what a mirror has lost, and registries are asked more
	// often. Misses are looked up again wherever a verdict depends on them.
	FactLifetime Duration `json:"factLifetime"`
	// Registries are those that are asked in a way of their own. quay.io keeps its 450 requests
	// a second unless an entry for it says otherwise.
	Registries []Registry `json:"registries"`
	// Caches are the registries, or the paths at them, that are pull-through caches, as "harbor.example.com/quay-proxy": what they
	// lack is pulled once through them, and nothing is copied there. It changes remedies, plans and sync, and no verdict.
	Caches []string `json:"caches" pattern:"^[a-zA-Z0-9]([-a-zA-Z0-9.]*[a-zA-Z0-9])?(:[1-9][0-9]{0,4})?(/[a-z0-9][-a-z0-9._]*)*$"`
	// AuditLog is where the records of decisions go, one line of JSON for each: stdout for standard output, while
	// the log goes to standard error; none; or the absolute path of a file, which is rotated at 100 MiB. Of such
	// files 10 are kept, compressed and in the same folder; only their owner can read them. {replica} in
	// the path stands for the name of the replica, for a folder that replicas share.
	AuditLog string `json:"auditLog" pattern:"^(stdout|none|/.*)$"`
	// Updates says which release the replica that verifies judges again and again before the cluster is updated to
	// it: off for none; desired for the one that spec.desiredUpdate of ClusterVersion names; recommended for that
	// one and, where there is none, the newest that ClusterVersion recommends.
	Updates Updates `json:"updates"`
}

// A NamespaceSeverity limits the findings about images used only in some namespaces.
type NamespaceSeverity struct {
	// Namespace is a name; a trailing * matches any ending.
	Namespace string `json:"namespace" required:"true" pattern:"^([*]|[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?|[a-z0-9][-a-z0-9]{0,61}[*])$"`
	// Severity is the greatest severity: with warn, such images never hold up a change.
	Severity NamespaceLimit `json:"severity" required:"true"`
}

// An Exemption makes warnings of denials. All that it says must hold, each list by one of its
// entries; a list that is left out does not restrict it, and one that restricts nothing is a mistake. An image
// is exempt only if all of its consumers are that would hold up the change.
type Exemption struct {
	// Name is what warnings, the log and audit annotations call the exemption.
	Name string `json:"name" required:"true" pattern:"^[a-zA-Z0-9]([-._a-zA-Z0-9]{0,61}[a-zA-Z0-9])?$"`
	// Images are patterns: "quay.io", "quay.io/team" and "quay.io/team/app" cover all below,
	// as the sources of mirror sets do; "quay.io/team/app:v1" is one image, as is one with a
	// digest instead of the tag; "*.example.com" covers the hosts below a domain; "*" covers
	// everything. Spelling makes no difference. A short name is covered by "*" only.
	Images []string `json:"images,omitempty"`
	// Namespaces are those of the images' consumers. A trailing * matches any ending.
	Namespaces []string `json:"namespaces,omitempty" pattern:"^([*]|[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?|[a-z0-9][-a-z0-9]{0,61}[*])$"`
	// MirrorSets are the names of the mirror sets that are changed. A trailing * matches any
	// ending. A change of several objects is exempt only if all of them are.
	MirrorSets []string `json:"mirrorSets,omitempty" pattern:"^([^*]+[*]?|[*])$"`
	// Users are those who make the change, as the API server knows them; they or the groups
	// have to match. A trailing * matches any ending.
	Users []string `json:"users,omitempty" pattern:"^([^*]+[*]?|[*])$"`
	// Groups are those of the user who makes the change. A trailing * matches any ending.
	Groups []string `json:"groups,omitempty" pattern:"^([^*]+[*]?|[*])$"`
	// Protected extends the exemption to images of protected namespaces and of consumers
	// without a namespace and, where it names neither images nor namespaces, to findings about
	// the configuration as a whole and to rollouts that stall.
	Protected bool `json:"protected,omitempty"`
}

// A Registry is asked in a way of its own.
type Registry struct {
	// Host is that of the registry, with the port if references have one.
	Host string `json:"host" required:"true" pattern:"^[a-zA-Z0-9]([-a-zA-Z0-9.]*[a-zA-Z0-9])?(:[1-9][0-9]{0,4})?$"`
	// RequestsPerSecond is the most requests a second; 0 for no limit.
	RequestsPerSecond *float64 `json:"requestsPerSecond,omitempty" minimum:"0" maximum:"1000000"`
}

// An Enum is one of a few texts.
type Enum interface{ Values() []string }

// Updates are the releases that are judged before an update.
type Updates string

// Values implements Enum.
func (Updates) Values() []string { return []string{string(UpdatesOff), "desired", "recommended"} }

// UpdatesOff is what YAML 1.1 reads as false where it is not quoted.
const UpdatesOff Updates = "off"

// A Mode is the effect of a denial.
type Mode string

// Values implements Enum.
func (Mode) Values() []string { return []string{"enforce", "warn", "audit"} }

// A Severity is the effect of a finding on the verdict.
type Severity string

// Values implements Enum.
func (Severity) Values() []string { return []string{"deny", "warn", "info"} }

// A NamespaceLimit is the greatest severity for some namespaces.
type NamespaceLimit string

// Values implements Enum.
func (NamespaceLimit) Values() []string { return []string{"deny", "warn"} }

// A BlobScope is a set of images.
type BlobScope string

// Values implements Enum.
func (BlobScope) Values() []string { return []string{"all", "protected", "none"} }

// A Duration is a number with a unit, as in 90s or 5m.
type Duration time.Duration

// String returns d without units that are zero: "5m", not "5m0s".
func (d Duration) String() string {
	s := time.Duration(d).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	*d = Duration(parsed)
	return err
}

//go:embed types.go
var source string

// Comments returns the comments of the types and their fields, as typedoc.Comments has them.
func Comments() map[string]string { return typedoc.Comments(source) }
