package nextrelease

import (
	"testing"

	"github.com/mirrorset-guard/mirrorset-guard/review/readiness"
	"github.com/mirrorset-guard/mirrorset-guard/review/readiness/target"
)

// found returns what a round has found of a version.
func found(version string, s readiness.State) verdict {
	v := verdict{marked: string(Desired), choice: target.Release{Version: version}}
	v.readiness = &readiness.Readiness{Version: version, Signature: readiness.Signature{State: s}, Choice: v.choice}
	return v
}

// TestLedger: a verdict is told once, when a second round confirms it; one that waits for answers is none.
func TestLedger(t *testing.T) {
	const ready, not, open = readiness.Ready, readiness.NotReady, readiness.Unknown
	type round struct {
		version string
		state   readiness.State
		settled bool
		tells   string
		rounds  int // not ready, in a row
	}
	for name, tt := range map[string]struct {
		ledger ledger
		rounds []round
	}{
		"a release is marked, and is ready": {ledger{}, []round{{"4.21.3", open, false, "", 0}, {"4.21.3", open, false, "", 0}, {"4.21.3", ready, true, "", 0}, {"4.21.3", ready, true, UpdateReady, 0}, {"4.21.3", ready, true, "", 0}}},
		"a replica begins, and it is ready": {ledger{first: true}, []round{{"4.21.3", ready, true, "", 0}, {"4.21.3", ready, true, "", 0}, {"4.21.3", not, true, "", 1}, {"4.21.3", not, true, UpdateNotReady, 2}}},
		"a replica begins, and it is not":   {ledger{first: true}, []round{{"4.21.3", not, true, "", 1}, {"4.21.3", not, true, UpdateNotReady, 2}, {"4.21.3", not, true, "", 3}}},
		"a miss that is none":               {ledger{first: true}, []round{{"4.21.3", not, true, "", 1}, {"4.21.3", ready, true, "", 0}, {"4.21.3", not, true, "", 1}, {"4.21.3", ready, true, "", 0}}},
		"misses while others are not known": {ledger{}, []round{{"4.21.3", not, false, "", 1}, {"4.21.3", not, false, UpdateNotReady, 2}}},
		"a registry gives no answer":        {ledger{}, []round{{"4.21.3", open, true, "", 0}, {"4.21.3", open, true, UpdateNotDetermined, 0}, {"4.21.3", open, true, "", 0}}},
		"another release is marked":         {ledger{first: true}, []round{{"4.21.3", not, true, "", 1}, {"4.21.4", not, true, "", 1}, {"4.21.4", not, true, UpdateNotReady, 2}, {"4.21.3", ready, true, "", 0}, {"4.21.3", ready, true, UpdateReady, 0}}},
	} {
		l := tt.ledger
		for i, r := range tt.rounds {
			l.enter(found(r.version, r.state), r.settled)
			tells := ""
			for n := range l.news {
				tells = n.Reason
				n.Done()
			}
			if rounds := l.trial.Rounds(UpdateNotReady); tells != r.tells || rounds != r.rounds {
				t.Errorf("%s, round %d: tells %q, %d rounds; want %+v", name, i, tells, rounds, r)
			}
		}
	}
}

// TestVersionLabel: what a stranger may write into ClusterVersion is no label.
func TestVersionLabel(t *testing.T) {
	for version, want := range map[string]string{"4.21.3": "4.21.3", "4.22.0-rc.1": "4.22.0-rc.1", "4.22.0-0.nightly-2026-01-02-030405": "4.22.0-0.nightly-2026-01-02-030405", "": "unknown", "4.21": "unknown", "4.21.3\nx": "unknown", "example.com/cart": "unknown"} {
		if got := versionLabel(version); got != want {
			t.Errorf("%q: got %q, want %q", version, got, want)
		}
	}
}
