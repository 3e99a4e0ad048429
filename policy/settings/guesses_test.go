package settings

import (
	"testing"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
)

// TestGuesses weighs a denial of an image by who names it. The image is missing everywhere.
func TestGuesses(t *testing.T) {
	guess := policy.Consumer{Kind: "TaskRun.tekton.dev", Namespace: "shop", Name: "a", Guessed: true}
	guessAtHome := policy.Consumer{Kind: "Widget.example.com", Namespace: "openshift-widgets", Name: "a", Guessed: true}
	sure := policy.Consumer{Kind: "Deployment", Namespace: "shop", Name: "a"}
	past := policy.Consumer{Kind: "Pod", Namespace: "shop", Name: "a", Use: policy.History}
	atProtected := map[string]policy.Severity{"ImageMissing@protected": policy.Warn}
	tests := []struct {
		reason    string
		consumers []policy.Consumer
		settings  Settings
		want      policy.Severity
	}{
		{"a guess warns", []policy.Consumer{guess}, Settings{}, policy.Warn},
		{"a guess beside one who is sure counts for nothing more", []policy.Consumer{guess, sure}, Settings{}, policy.Deny},
		{"history makes no guess sure", []policy.Consumer{guess, past}, Settings{}, policy.Warn},
		{"in a protected namespace a guess denies", []policy.Consumer{guessAtHome}, Settings{}, policy.Deny},
		{"unless it is weakened as any protected image is", []policy.Consumer{guessAtHome}, Settings{Severities: atProtected}, policy.Warn},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			f := policy.Finding{Rule: "ImageMissing", Severity: policy.Deny, Image: policy.Image{Ref: "quay.io/shop/cart:1", Consumers: tt.consumers}}
			if got := tt.settings.severity(f, false); got != tt.want {
				t.Errorf("severity = %s, want %s", got, tt.want)
			}
		})
	}
}

// A guess is asked about when all else has been.
func TestGuessesComeLast(t *testing.T) {
	var s Settings
	rank := func(u policy.Consumer) int { return s.Rank(policy.Image{Consumers: []policy.Consumer{u}}) }
	guess, referenced := policy.Consumer{Namespace: "shop", Guessed: true}, policy.Consumer{Namespace: "shop"}
	if rank(guess) <= rank(referenced) || rank(guess) <= rank(policy.Consumer{Namespace: "openshift-ingress", Guessed: true}) {
		t.Errorf("a guess has rank %d, what is referenced %d", rank(guess), rank(referenced))
	}
}

// TestUsersCountAlone: users none of whom holds up a change do not do so together, and a
// setting makes history no reason to refuse.
func TestUsersCountAlone(t *testing.T) {
	guess := policy.Consumer{Kind: "Widget.example.com", Namespace: "shop", Name: "a", Guessed: true}
	lenient := policy.Consumer{Kind: "Deployment", Namespace: "dev", Name: "a"}
	past := policy.Consumer{Kind: "ReplicaSet", Namespace: "openshift-ingress", Name: "a", Use: policy.History}
	router := policy.Consumer{Kind: "Deployment", Namespace: "openshift-ingress", Name: "a"}
	for _, set := range []map[string]policy.Severity{nil, {"ImageMissing": policy.Deny, "ImageMissing@protected": policy.Deny}} {
		s := Settings{Namespaces: []NamespaceSeverity{{"dev", policy.Warn}}, Severities: set}
		for _, consumers := range [][]policy.Consumer{{guess}, {lenient}, {past}, {guess, lenient}, {past, lenient}, {past, guess}, {past, guess, lenient}} {
			f := policy.Finding{Rule: "ImageMissing", Severity: policy.Deny, Image: policy.Image{Ref: "quay.io/x:1", Consumers: consumers}}
			if got := s.severity(f, false); got != policy.Warn {
				t.Errorf("%v with %v: %s", consumers, set, got)
			}
			f.Image.Consumers = append(consumers, router)
			if got := s.severity(f, false); got != policy.Deny {
				t.Errorf("%v with %v: %s", f.Image.Consumers, set, got)
			}
		}
	}
}
