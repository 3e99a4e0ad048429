package signing_test

import (
	"slices"
	"testing"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/policy/signing"
	"github.com/mirrorset-guard/mirrorset-guard/test/signer"
)

// A draw makes a case that is accepted but for one flaw, or with one choice that is not the usual one. It notes what
// else there was to choose.
type draw struct {
	flaw, what string
	variant    int
	flaws      map[string]bool
	choices    map[string]int
}

func (d *draw) Has(flaw string, _ int) bool {
	d.flaws[flaw] = true
	return flaw == d.flaw
}

func (d *draw) Pick(what string, n int) int {
	d.choices[what] = n
	if what == d.what {
		return d.variant % n
	}
	return 0
}

// outcomeOf judges the case that d draws, at the time for which its certificates are made.
func outcomeOf(s *signer.Signers, root string, d *draw) signing.Judgement {
	d.flaws, d.choices = map[string]bool{}, map[string]int{}
	c := s.Case(root, 1, d)
	signatures := signing.Signatures{All: c.Signatures, Read: time.Now()}
	return signatures.Judge(signing.NewRequirements(c.Requirement), signing.Image{Reference: c.Reference, Digest: c.Digest()})
}

// TestEachFlawIsSeen: whatever the root of trust, one flaw is enough for nodes not to accept an image, in each of its forms. The
// truth test holds the same cases to containers/image.
func TestEachFlawIsSeen(t *testing.T) {
	others := map[string]signing.Outcome{"another type": signing.Missing, "sha512": signing.Undecided}
	ofName := map[string]bool{"the repository alone": true, "no reference": true}
	s := signer.NewSigners()
	for _, root := range signer.Roots {
		usual, seen := &draw{}, 0
		if got := outcomeOf(s, root, usual); got.Outcome != signing.Accepted || got.Reason != "" {
			t.Fatalf("%s: without a flaw: %+v", root, got)
		}
		for flaw := range usual.flaws {
			want, other := others[flaw]
			if !other {
				want = signing.Rejected
			}
			for variant, n := 0, 1; variant < n; variant++ {
				d := &draw{flaw: flaw, what: flaw, variant: variant}
				got := outcomeOf(s, root, d)
				n = max(1, d.choices[flaw])
				if seen++; got.Outcome != want || got.Reason == "" || got.SignedAs == "" && flaw == "the repository alone" || got.SignedAs != "" && !ofName[flaw] {
					t.Errorf("%s: %s, form %d of %d: %+v, want outcome %v", root, flaw, variant, n, got, want)
				}
			}
		}
		if seen < 20 {
			t.Errorf("%s has %d flaws: too few to tell", root, seen)
		}
	}
}

// TestEachChoiceIsAccepted: of keys, options, issuers and authorities, whichever a signer has chosen.
func TestEachChoiceIsAccepted(t *testing.T) {
	named := []string{"identity", "name", "signatures"} // see TestIdentities
	s := signer.NewSigners()
	for _, root := range signer.Roots {
		usual := &draw{}
		outcomeOf(s, root, usual)
		for what, n := range usual.choices {
			for variant := 1; variant < n && !slices.Contains(named, what); variant++ {
				if got := outcomeOf(s, root, &draw{what: what, variant: variant}); got.Outcome != signing.Accepted {
					t.Errorf("%s: %s %d: %+v", root, what, variant, got)
				}
			}
		}
	}
}

// TestNotKnownHere: what nodes alone know, or the time at which signatures were read, is never taken for good.
func TestNotKnownHere(t *testing.T) {
	s := signer.NewSigners()
	for _, root := range signer.Roots {
		c := s.Case(root, 1, &draw{flaws: map[string]bool{}, choices: map[string]int{}})
		for name, change := range map[string]func(*signing.Requirement){
			"a key on the nodes":         func(r *signing.Requirement) { r.KeyPath = "/etc/key" },
			"keys on the nodes":          func(r *signing.Requirement) { r.KeyPaths = []string{"/etc/key"} },
			"Rekor's key on the nodes":   func(r *signing.Requirement) { r.RekorPublicKeyPath = "/etc/key" },
			"its keys on the nodes":      func(r *signing.Requirement) { r.RekorPublicKeyPaths = []string{"/etc/key"} },
			"Fulcio's CA on the nodes":   func(r *signing.Requirement) { r.Fulcio = &signing.Fulcio{CAPath: "/etc/ca"} },
			"roots on the nodes":         func(r *signing.Requirement) { r.PKI = &signing.PKI{CARootsPath: "/etc/ca"} },
			"intermediates on the nodes": func(r *signing.Requirement) { r.PKI = &signing.PKI{CAIntermediatesPath: "/etc/ca"} },
			"no key":                     func(r *signing.Requirement) { *r = signing.Requirement{Type: r.Type} },
			"GPG":                        func(r *signing.Requirement) { r.Type = "signedBy" },
		} {
			r := c.Requirement
			change(&r)
			got := (&signing.Signatures{All: c.Signatures, Read: time.Now()}).Judge(signing.NewRequirements(r), signing.Image{Reference: c.Reference, Digest: c.Digest()})
			if got.Outcome != signing.Undecided || got.Reason == "" {
				t.Errorf("%s, %s: %+v", root, name, got)
			}
		}
		untimed := (&signing.Signatures{All: c.Signatures}).Judge(signing.NewRequirements(c.Requirement), signing.Image{Reference: c.Reference, Digest: c.Digest()})
		if want := map[bool]signing.Outcome{true: signing.Undecided, false: signing.Accepted}[root == "pki"]; untimed.Outcome != want {
			t.Errorf("%s, read at no known time: %+v", root, untimed)
		}
	}
}
