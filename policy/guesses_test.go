package policy

import "testing"

// TestGuesses weighs a denial of an image by who names it. The image is missing everywhere.
func TestGuesses(t *testing.T) {
	guess := Consumer{Kind: "TaskRun.tekton.dev", Namespace: "shop", Name: "a", Guessed: true}
	guessAtHome := Consumer{Kind: "Widget.example.com", Namespace: "openshift-widgets", Name: "a", Guessed: true}
	sure := Consumer{Kind: "Deployment", Namespace: "shop", Name: "a"}
	past := Consumer{Kind: "Pod", Namespace: "shop", Name: "a", Use: History}
	atProtected := map[string]Severity{"ImageMissing@protected": Warn}
	tests := []struct {
		reason    string
		consumers []Consumer
		settings  Settings
		want      Severity
	}{
		{"a guess warns", []Consumer{guess}, Settings{}, Warn},
		{"a guess beside one who is sure counts for nothing more", []Consumer{guess, sure}, Settings{}, Deny},
		{"history makes no guess sure", []Consumer{guess, past}, Settings{}, Warn},
		{"in a protected namespace a guess denies", []Consumer{guessAtHome}, Settings{}, Deny},
		{"unless it is weakened as any protected image is", []Consumer{guessAtHome}, Settings{Severities: atProtected}, Warn},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			f := Finding{Rule: "ImageMissing", Severity: Deny, Image: Image{Ref: "quay.io/shop/cart:1", Consumers: tt.consumers}}
			if got := tt.settings.severity(f, false); got != tt.want {
				t.Errorf("severity = %s, want %s", got, tt.want)
			}
		})
	}
}

// A guess is asked about when all else has been.
func TestGuessesComeLast(t *testing.T) {
	var s Settings
	rank := func(u Consumer) int { return s.Rank(Image{Consumers: []Consumer{u}}) }
	guess, referenced := Consumer{Namespace: "shop", Guessed: true}, Consumer{Namespace: "shop"}
	if rank(guess) <= rank(referenced) || rank(guess) <= rank(Consumer{Namespace: "openshift-ingress", Guessed: true}) {
		t.Errorf("a guess has rank %d, what is referenced %d", rank(guess), rank(referenced))
	}
}

// TestUsersCountAlone: users none of whom holds up a change do not do so together, and a
// setting makes history no reason to refuse.
func TestUsersCountAlone(t *testing.T) {
	guess := Consumer{Kind: "Widget.example.com", Namespace: "shop", Name: "a", Guessed: true}
	lenient := Consumer{Kind: "Deployment", Namespace: "dev", Name: "a"}
	past := Consumer{Kind: "ReplicaSet", Namespace: "openshift-ingress", Name: "a", Use: History}
	router := Consumer{Kind: "Deployment", Namespace: "openshift-ingress", Name: "a"}
	for _, set := range []map[string]Severity{nil, {"ImageMissing": Deny, "ImageMissing@protected": Deny}} {
		s := Settings{Namespaces: []NamespaceSeverity{{"dev", Warn}}, Severities: set}
		for _, consumers := range [][]Consumer{{guess}, {lenient}, {past}, {guess, lenient}, {past, lenient}, {past, guess}, {past, guess, lenient}} {
			f := Finding{Rule: "ImageMissing", Severity: Deny, Image: Image{Ref: "quay.io/x:1", Consumers: consumers}}
			if got := s.severity(f, false); got != Warn {
				t.Errorf("%v with %v: %s", consumers, set, got)
			}
			f.Image.Consumers = append(consumers, router)
			if got := s.severity(f, false); got != Deny {
				t.Errorf("%v with %v: %s", f.Image.Consumers, set, got)
			}
		}
	}
}
