package cli

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/config"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
)

// PolicyFlags are the settings of the verdict.
type PolicyFlags struct {
	protected           []string
	allowSourceFallback bool
	severities          []string
	namespaces          []string
	verifyBlobs         string
	guesses             string
	minutesPerNode      string
}

// AddFlags adds the flags.
func (p *PolicyFlags) AddFlags(flags *pflag.FlagSet) {
	flags.StringSliceVar(&p.protected, "protect", policy.DefaultProtected, "namespaces whose images come first, the most important first (a trailing * matches any ending); the guard's own is always one of them")
	flags.BoolVar(&p.allowSourceFallback, "allow-source-fallback", false, "admit, with a warning, an image that no mirror holds as long as its source does and may be contacted")
	flags.StringVar(&p.verifyBlobs, "verify-blobs", "protected", "all, protected or none: the images whose layers are looked up, not only the manifest")
	flags.StringVar(&p.guesses, "guesses", "warn", "deny, warn or ignore: how to treat images outside of protected namespaces that are only guessed from the look of an object")
	OneOf(flags, "verify-blobs", slices.Sorted(maps.Keys(blobScopes))...)
	OneOf(flags, "guesses", slices.Sorted(maps.Keys(guessNames))...)
	flags.StringVar(&p.minutesPerNode, "minutes-per-node", "", "LEAST-MOST: how many minutes a node takes that is drained, for the forecast (default: as in the pool's last rollout, or 5-15)")
	flags.StringSliceVar(&p.severities, "severity", nil, "RULE=deny|warn|info; RULE@protected=... for images of protected namespaces; may be repeated")
	flags.StringSliceVar(&p.namespaces, "namespace-severity", nil, "NAMESPACE=warn or =deny: the greatest severity for images used only in such namespaces (a trailing * matches any ending; the first match counts); never for protected namespaces; may be repeated")
}

func (p *PolicyFlags) settings() (policy.Settings, error) {
	blobs, known := blobScopes[p.verifyBlobs]
	if !known {
		return policy.Settings{}, fmt.Errorf("--verify-blobs %q: choose one of all, protected, none", p.verifyBlobs)
	}
	guesses, known := guessNames[p.guesses]
	if !known {
		return policy.Settings{}, fmt.Errorf("--guesses %q: choose one of deny, warn, ignore", p.guesses)
	}
	drain, err := minutes(p.minutesPerNode)
	if err != nil {
		return policy.Settings{}, err
	}
	s := policy.Settings{Times: rollout.Settings{Drain: drain}, Blobs: blobs, Guesses: guesses, Protected: config.WithOwn(p.protected), AllowSourceFallback: p.allowSourceFallback, Severities: map[string]policy.Severity{}}
	for _, entry := range p.severities {
		rule, level, ok := strings.Cut(entry, "=")
		severity, known := severityNames[level]
		if !ok || !known || !policy.IsRule(strings.TrimSuffix(rule, "@protected")) {
			return s, fmt.Errorf("--severity %q: want RULE=deny, RULE=warn or RULE=info, with a rule of %s", entry, strings.Join(policy.RuleIDs(), ", "))
		}
		s.Severities[rule] = severity
	}
	for _, entry := range p.namespaces {
		pattern, level, ok := strings.Cut(entry, "=")
		severity, known := severityNames[level]
		if !ok || !known || severity == policy.Info || pattern == "" {
			return s, fmt.Errorf("--namespace-severity %q: want NAMESPACE=warn or NAMESPACE=deny, where NAMESPACE may end in *", entry)
		}
		s.Namespaces = append(s.Namespaces, policy.NamespaceSeverity{Pattern: pattern, Severity: severity})
	}
	return s, nil
}

// minutes reads a range of whole minutes: "5-15", or "10" for both; "" is the zero Range.
func minutes(s string) (rollout.Range, error) {
	if s == "" {
		return rollout.Range{}, nil
	}
	least, most, ok := strings.Cut(s, "-")
	if !ok {
		most = least
	}
	from, errFrom := strconv.ParseUint(least, 10, 16)
	to, errTo := strconv.ParseUint(most, 10, 16)
	if errFrom != nil || errTo != nil || from == 0 || from > to {
		return rollout.Range{}, fmt.Errorf("--minutes-per-node %q: want LEAST-MOST in whole minutes, as in 5-15", s)
	}
	return rollout.Range{Min: time.Duration(from) * time.Minute, Max: time.Duration(to) * time.Minute}, nil
}

var blobScopes = map[string]policy.BlobScope{
	"all": policy.BlobsOfAll, "protected": policy.BlobsOfProtected, "none": policy.BlobsOfNone,
}

var guessNames = map[string]policy.Guesses{
	"deny": policy.GuessesDeny, "warn": policy.GuessesWarn, "ignore": policy.GuessesIgnore,
}

var severityNames = map[string]policy.Severity{"deny": policy.Deny, "warn": policy.Warn, "info": policy.Info}
