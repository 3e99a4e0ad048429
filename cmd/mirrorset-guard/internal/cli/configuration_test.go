package cli

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/spf13/pflag"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/test/clitest"
)

// parsed returns the flags that check has, after args.
func parsed(t *testing.T, args ...string) (*ConfigFlags, *PolicyFlags, *RegistryFlags) {
	t.Helper()
	var c ConfigFlags
	var p PolicyFlags
	var r RegistryFlags
	set := pflag.NewFlagSet("check", pflag.ContinueOnError)
	c.AddFlags(set)
	p.AddFlags(set)
	r.AddFlags(set)
	set.String("audit-log", "", "") // of serve
	if err := set.Parse(args); err != nil {
		t.Fatal(err)
	}
	return &c, &p, &r
}

// TestFlagsAndFile: a flag sets what the file leaves out. What both set is a mistake, even if
// they agree, and all such are named.
func TestFlagsAndFile(t *testing.T) {
	file := clitest.Written(t, "config.yaml", clitest.ConfigHeader+"audit: {destination: stdout}\nguesses: warn\nregistries: [{host: quay.io, requestsPerSecond: 5}]\nlifetimes: {found: 1m}\nprotectedNamespaces: [vault]\n")
	all := []string{
		"--config", file, "--protect=a", "--severity=NoRoute=warn", "--namespace-severity=b=warn", "--guesses=warn", "--verify-blobs=all",
		"--allow-source-fallback", "--minutes-per-node=1-2", "--fact-lifetime=1m", "--registry-rate=x=1", "--audit-log=/x",
	}
	c, p, r := parsed(t, all...)
	_, err := c.Read(p, r)
	want := "--config: " + file + ": set both in the configuration file and by a flag: protectedNamespaces and --protect, guesses and --guesses, lifetimes.found and --fact-lifetime, registries.requestsPerSecond and --registry-rate, audit.destination and --audit-log"
	if err == nil || err.Error() != want {
		t.Errorf("%v\nwant %s", err, want)
	}

	empty := clitest.Written(t, "config.yaml", clitest.ConfigHeader)
	all[1] = empty
	c, p, r = parsed(t, all...)
	both, err := c.Read(p, r)
	if err != nil {
		t.Fatal(err)
	}
	s := both.Settings
	if s.Protected[1] != "a" || s.Severities["NoRoute"] != policy.Warn || s.Namespaces[0].Pattern != "b" || s.Guesses != policy.GuessesWarn || s.Blobs != policy.BlobsOfAll ||
		!s.AllowSourceFallback || s.Times.Drain.Max.Minutes() != 2 || both.Lifetimes.PresentDigest.Minutes() != 1 || both.Paces.Rates["x"] != 1 {
		t.Errorf("a flag has no effect: %+v", both)
	}
	for _, o := range overlapping {
		if !c.says(o.flag) {
			t.Errorf("--%s is missing in this test", o.flag)
		}
	}
}

// TestFlagsAndDefaults: without a file and without flags, and with a file that says nothing,
// everything is the same.
func TestFlagsAndDefaults(t *testing.T) {
	text := func(args ...string) string {
		t.Helper()
		c, p, r := parsed(t, args...)
		both, err := c.Read(p, r)
		if err != nil {
			t.Fatal(err)
		}
		alone, err := r.configuration()
		if err != nil || alone.Lifetimes != both.Lifetimes || len(alone.Paces.Rates) != len(both.Paces.Rates) {
			t.Errorf("%v: %+v, %+v", err, alone, both)
		}
		flagged, err := p.settings()
		if err != nil {
			t.Fatal(err)
		}
		flagged.Depths = both.Settings.Depths // of which there is no flag
		one, _ := json.Marshal(both.Settings)
		other, _ := json.Marshal(flagged)
		if !bytes.Equal(one, other) {
			t.Errorf("file  %s\nflags %s", one, other)
		}
		return string(one)
	}
	if none, empty := text(), text("--config", clitest.Written(t, "config.yaml", clitest.ConfigHeader)); none != empty {
		t.Errorf("no file\n%s\nan empty one\n%s", none, empty)
	}
}
