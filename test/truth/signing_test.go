package truth

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/policy/signing"
	"github.com/mirrorset-guard/mirrorset-guard/test/campaign"
	"github.com/mirrorset-guard/mirrorset-guard/test/signer"
	"github.com/mirrorset-guard/mirrorset-guard/test/skip"
)

// TestSignaturesAreJudgedAsNodesDo: package signing accepts what containers/image accepts, and
// rejects the rest, in the same words as far as people may come to read them.
func TestSignaturesAreJudgedAsNodesDo(t *testing.T) {
	skip.UnlessIntegration(t)
	count := campaign.Times(3000, many)
	folder := t.TempDir()
	if _, err := puller(folder); err != nil {
		t.Fatal(err)
	}
	signers := signer.NewSigners()
	cases, flaws := make([]signer.Case, count), make([]flawed, count)
	var questions bytes.Buffer
	for i := range cases {
		flaws[i].gen = gen{rand.New(rand.NewPCG(7, uint64(i)))}
		c := signers.Case(signer.Roots[i%len(signer.Roots)], i, &flaws[i])
		cases[i] = c
		if err := json.NewEncoder(&questions).Encode(map[string]any{
			"policy":    map[string]any{"default": []signing.Requirement{{Type: "reject"}}, "transports": map[string]any{"docker": map[string]any{"quay.example.com": []signing.Requirement{c.Requirement}}}},
			"reference": c.Reference, "manifest": c.Manifest, "signatures": c.Signatures,
		}); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), folder+"/puller", "judge")
	cmd.Stdin, cmd.Stderr = &questions, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	answers := json.NewDecoder(bytes.NewReader(out))
	seen := map[string]int{}
	for i, c := range cases {
		var answer struct{ Rejected string }
		if err := answers.Decode(&answer); err != nil {
			t.Fatal(err)
		}
		signatures := &signing.Signatures{All: c.Signatures, Read: time.Now()}
		got := signatures.Judge(signing.NewRequirements(c.Requirement), signing.Image{Reference: c.Reference, Digest: c.Digest()})
		seen[fmt.Sprint(c.Root, got.Outcome)]++
		switch {
		case got.Outcome == signing.Undecided && strings.Contains(strings.Join(flaws[i].are, " "), "sha512"):
		case got.Outcome == signing.Undecided, (got.Outcome == signing.Accepted) != (answer.Rejected == ""), got.Reason != answer.Rejected && flaws[i].areCommon():
			t.Errorf("case %d (%s, %v): %v %q, nodes say %q", i, c.Root, flaws[i].are, got.Outcome, got.Reason, answer.Rejected)
		}
	}
	for _, root := range signer.Roots {
		if seen[fmt.Sprint(root, signing.Accepted)] < count/50 || seen[fmt.Sprint(root, signing.Rejected)] < count/50 {
			t.Errorf("root %s: %d cases are accepted and %d rejected: too few to tell", root, seen[fmt.Sprint(root, signing.Accepted)], seen[fmt.Sprint(root, signing.Rejected)])
		}
	}
	t.Logf("outcomes by root: %v", seen)
}

// flawed draws a case at random, and holds what is wrong with it on purpose.
type flawed struct {
	gen
	are []string
}

// Has implements signer.Draws.
func (f *flawed) Has(flaw string, percent int) bool {
	if !f.chance(percent) {
		return false
	}
	f.are = append(f.are, flaw)
	return true
}

// Pick implements signer.Draws.
func (f *flawed) Pick(_ string, n int) int { return f.IntN(n) }

// areCommon reports whether the flaws are such as people make; of others, the errors of
// parsers need not be the same.
func (f *flawed) areCommon() bool {
	for _, flaw := range f.are {
		switch flaw {
		case "another type", "another key", "no signature", "no log entry", "another log", "the repository alone", "another digest", "another subject", "another usage", "another issuer", "a stranger's certificate", "no certificate", "another kind":
		default:
			return false
		}
	}
	return true
}
