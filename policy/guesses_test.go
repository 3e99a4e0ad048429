package policy

import "testing"

// TestGuesses weighs a denial of an image by who names it. The image is missing everywhere.
func TestGuesses(t *testing.T) {
	guess := User{Kind: "TaskRun.tekton.dev", Namespace: "shop", Name: "a", Guessed: true}
	guessAtHome := User{Kind: "Widget.example.com", Namespace: "openshift-widgets", Name: "a", Guessed: true}
	sure := User{Kind: "Deployment", Namespace: "shop", Name: "a"}
	past := User{Kind: "Pod", Namespace: "shop", Name: "a", Use: History}
	atProtected := map[string]Severity{"ImageMissing@protected": Warn}
	tests := []struct {
		reason   string
		users    []User
		settings Settings
		want     Severity
	}{
		{"a guess warns", []User{guess}, Settings{}, Warn},
		{"a guess beside one who is sure counts for nothing more", []User{guess, sure}, Settings{}, Deny},
		{"history makes no guess sure", []User{guess, past}, Settings{}, Warn},
		{"in a protected namespace a guess denies", []User{guessAtHome}, Settings{}, Deny},
		{"and goes on to, if guesses are ignored elsewhere", []User{guessAtHome}, Settings{Guesses: GuessesIgnore}, Deny},
		{"unless it is weakened as any protected image is", []User{guessAtHome}, Settings{Severities: atProtected}, Warn},
		{"a setting that takes guesses for what they seem", []User{guess}, Settings{Guesses: GuessesDeny}, Deny},
		{"a setting that wants to hear nothing of them", []User{guess}, Settings{Guesses: GuessesIgnore}, Info},
		{"it leaves others alone", []User{sure}, Settings{Guesses: GuessesIgnore}, Deny},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			f := Finding{Rule: "ImageMissing", Severity: Deny, Image: Image{Ref: "quay.io/shop/cart:1", Users: tt.users}}
			if got := tt.settings.severity(f); got != tt.want {
				t.Errorf("severity = %s, want %s", got, tt.want)
			}
		})
	}
}

// A guess is asked about when all else has been.
func TestGuessesComeLast(t *testing.T) {
	var s Settings
	rank := func(u User) int { return s.Rank(Image{Users: []User{u}}) }
	guess, referenced := User{Namespace: "shop", Guessed: true}, User{Namespace: "shop"}
	if rank(guess) <= rank(referenced) || rank(guess) <= rank(User{Namespace: "openshift-ingress", Guessed: true}) {
		t.Errorf("a guess has rank %d, what is referenced %d", rank(guess), rank(referenced))
	}
}

// TestUsersCountAlone: users none of whom holds up a change do not do so together, and a
// setting makes history no reason to refuse.
func TestUsersCountAlone(t *testing.T) {
	guess := User{Kind: "Widget.example.com", Namespace: "shop", Name: "a", Guessed: true}
	lenient := User{Kind: "Deployment", Namespace: "dev", Name: "a"}
	past := User{Kind: "ReplicaSet", Namespace: "openshift-ingress", Name: "a", Use: History}
	router := User{Kind: "Deployment", Namespace: "openshift-ingress", Name: "a"}
	for _, set := range []map[string]Severity{nil, {"ImageMissing": Deny, "ImageMissing@protected": Deny}} {
		s := Settings{Namespaces: []NamespaceSeverity{{"dev", Warn}}, Severities: set}
		for _, users := range [][]User{{guess}, {lenient}, {past}, {guess, lenient}, {past, lenient}, {past, guess}, {past, guess, lenient}} {
			f := Finding{Rule: "ImageMissing", Severity: Deny, Image: Image{Ref: tag, Users: users}}
			if got := s.severity(f); got != Warn {
				t.Errorf("%v with %v: %s", users, set, got)
			}
			f.Image.Users = append(users, router)
			if got := s.severity(f); got != Deny {
				t.Errorf("%v with %v: %s", f.Image.Users, set, got)
			}
		}
	}
}
