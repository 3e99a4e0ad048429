package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/config"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/review"
)

const configHeader = "apiVersion: config.mirrorset-guard.io/v1alpha1\nkind: GuardConfiguration\n"

func TestConfigCommand(t *testing.T) {
	bad := written(t, "bad.yaml", configHeader+"mode: enforced\nseverities: {ImageMising: warn}\nexemption: []\n")
	good := written(t, "good.yaml", configHeader+"mode: warn\n")
	for _, tt := range []struct {
		args           string
		stdin          string
		code           int
		stdout, stderr string // the beginning
	}{
		{"validate " + good, "", 0, good + " is a good configuration; its mode is warn\n", ""},
		{"validate -", configHeader, 0, "standard input is a good configuration; its mode is enforce\n", ""},
		{"validate " + bad, "", exitTrouble, "", "mirrorset-guard: " + bad + `: 3 mistakes:
- exemption: Invalid value: unknown field; did you mean "exemptions"?
- mode: Unsupported value: "enforced": supported values: "enforce", "warn", "audit"
- severities[ImageMising]: Invalid value: no such rule; did you mean "ImageMissing"?
`},
		{"validate -", "", exitTrouble, "", "mirrorset-guard: standard input: 2 mistakes:\n- apiVersion: Required value"},
		{"validate " + filepath.Join(t.TempDir(), "none"), "", exitTrouble, "", "mirrorset-guard: open "},
		{"validate", "", exitTrouble, "", "mirrorset-guard: accepts 1 arg(s), received 0\n"},
		{"defaults", "", 0, configHeader + "mode: enforce\n", ""},
		{"schema", "", 0, "{\n", ""},
		{"explain", "", 0, "GuardConfiguration, config.mirrorset-guard.io/v1alpha1\n", ""},
		{"explain exemptions.users", "", 0, "exemptions.users: list of strings\n", ""},
		{"explain exemptions.user", "", exitTrouble, "", `mirrorset-guard: no field "exemptions.user"; did you mean "users"?` + "\n"},
	} {
		t.Run(tt.args, func(t *testing.T) {
			var out, errs bytes.Buffer
			code := run(t.Context(), append([]string{"config"}, strings.Fields(tt.args)...), strings.NewReader(tt.stdin), &out, &errs)
			if code != tt.code || !strings.HasPrefix(out.String(), tt.stdout) || !strings.HasPrefix(errs.String(), tt.stderr) || tt.stderr == "" != (errs.Len() == 0) {
				t.Errorf("exit code %d\n%s\n%s\nwant %d\n%s\n%s", code, &out, &errs, tt.code, tt.stdout, tt.stderr)
			}
		})
	}
}

// parsed returns the flags that check has, after args.
func parsed(t *testing.T, args ...string) (*configFlags, *policyFlags, *registryFlags) {
	t.Helper()
	var c configFlags
	var p policyFlags
	var r registryFlags
	set := pflag.NewFlagSet("check", pflag.ContinueOnError)
	c.addFlags(set)
	p.addFlags(set)
	r.addFlags(set)
	new(auditFlags).addFlags(set)
	if err := set.Parse(args); err != nil {
		t.Fatal(err)
	}
	return &c, &p, &r
}

// TestFlagsAndFile: a flag sets what the file leaves out. What both set is a mistake, even if
// they agree, and all such are named.
func TestFlagsAndFile(t *testing.T) {
	file := written(t, "config.yaml", configHeader+"audit: {destination: stdout}\nguesses: warn\nregistries: [{host: quay.io, requestsPerSecond: 5}]\nlifetimes: {found: 1m}\nprotectedNamespaces: [vault]\n")
	all := []string{
		"--config", file, "--protect=a", "--severity=NoRoute=warn", "--namespace-severity=b=warn", "--guesses=warn", "--verify-blobs=all",
		"--allow-source-fallback", "--minutes-per-node=1-2", "--fact-lifetime=1m", "--registry-rate=x=1", "--audit-log=/x",
	}
	c, p, r := parsed(t, all...)
	_, err := c.read(p, r)
	want := "--config: " + file + ": set both in the configuration file and by a flag: protectedNamespaces and --protect, guesses and --guesses, lifetimes.found and --fact-lifetime, registries.requestsPerSecond and --registry-rate, audit.destination and --audit-log"
	if err == nil || err.Error() != want {
		t.Errorf("%v\nwant %s", err, want)
	}

	empty := written(t, "config.yaml", configHeader)
	all[1] = empty
	c, p, r = parsed(t, all...)
	both, err := c.read(p, r)
	if err != nil {
		t.Fatal(err)
	}
	s := both.settings
	if s.Protected[1] != "a" || s.Severities["NoRoute"] != policy.Warn || s.Namespaces[0].Pattern != "b" || s.Guesses != policy.GuessesWarn || s.Blobs != policy.BlobsOfAll ||
		!s.AllowSourceFallback || s.Times.Drain.Max.Minutes() != 2 || both.lifetimes.PresentDigest.Minutes() != 1 || both.paces.Rates["x"] != 1 {
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
		both, err := c.read(p, r)
		if err != nil {
			t.Fatal(err)
		}
		alone, err := r.configuration()
		if err != nil || alone.lifetimes != both.lifetimes || len(alone.paces.Rates) != len(both.paces.Rates) {
			t.Errorf("%v: %+v, %+v", err, alone, both)
		}
		flagged, err := p.settings()
		if err != nil {
			t.Fatal(err)
		}
		flagged.Depths = both.settings.Depths // of which there is no flag
		one, _ := json.Marshal(both.settings)
		other, _ := json.Marshal(flagged)
		if !bytes.Equal(one, other) {
			t.Errorf("file  %s\nflags %s", one, other)
		}
		return string(one)
	}
	if none, empty := text(), text("--config", written(t, "config.yaml", configHeader)); none != empty {
		t.Errorf("no file\n%s\nan empty one\n%s", none, empty)
	}
}

// TestCheckByMode: check goes by the mode of the file, and says so.
func TestCheckByMode(t *testing.T) {
	files := map[string]string{"dump.yaml": dumpInForce, "odd.yaml": conflicting, "bad.yaml": "kind: x\n"}
	for mode, want := range map[string]struct {
		code int
		head string
	}{
		"enforce": {exitDenied, "ImageTagMirrorSet odd is refused: "},
		"warn":    {exitAdmitted, "ImageTagMirrorSet odd is admitted in mode warn, and would be refused in mode enforce: "},
		"audit":   {exitAdmitted, "ImageTagMirrorSet odd is admitted in mode audit, and would be refused in mode enforce: "},
	} {
		files["config.yaml"] = configHeader + "mode: " + mode + "\n"
		args := []string{"-f", "{dir}/odd.yaml", "--from", "{dir}/dump.yaml", "--config", "{dir}/config.yaml", "-o"}
		code, stdout, stderr := check(t, files, append(args, "table")...)
		if code != want.code || !strings.HasPrefix(stdout, want.head) {
			t.Errorf("mode %s: exit code %d\n%s%s\nwant %d\n%s", mode, code, stdout, stderr, want.code, want.head)
		}
		code, stdout, _ = check(t, files, append(args, "json")...)
		var doc review.Document
		if err := json.Unmarshal([]byte(stdout), &doc); err != nil || code != want.code || doc.Mode != mode || doc.Allowed != (code == exitAdmitted) || doc.Allowed != strings.HasPrefix(doc.Waived, want.head) {
			t.Errorf("mode %s: %v, exit code %d, mode %q, waived %q", mode, err, code, doc.Mode, doc.Waived)
		}
		code, stdout, _ = check(t, files, append(args, "junit")...)
		if code != want.code || strings.Contains(stdout, "<failure") != (mode == "enforce") {
			t.Errorf("mode %s: exit code %d\n%s", mode, code, stdout)
		}
	}
	code, _, stderr := check(t, files, "-f", "{dir}/odd.yaml", "--from", "{dir}/dump.yaml", "--config", "{dir}/bad.yaml")
	if code != exitTrouble || !strings.HasPrefix(stderr, "mirrorset-guard: --config: {dir}/bad.yaml: 2 mistakes:\n- apiVersion: Required value") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}

// TestCheckByUser: exemptions of users hold for --for-user, and are noted without it.
func TestCheckByUser(t *testing.T) {
	files := map[string]string{
		"dump.yaml": dumpInForce, "odd.yaml": conflicting,
		"config.yaml": configHeader + "exemptions: [{name: ops, groups: [ops], protected: true}]\n",
	}
	const note = "Note: exemptions of users and groups were not applied, as it is not known who will make the change; see --for-user\n"
	for _, tt := range []struct {
		as    []string
		code  int
		noted bool
	}{
		{nil, exitDenied, true},
		{[]string{"--for-user", "ann"}, exitDenied, false},
		{[]string{"--for-user", "ann", "--for-group", "ops"}, exitAdmitted, false},
		{[]string{"--for-group", "ops"}, exitTrouble, false},
	} {
		code, stdout, stderr := check(t, files, append([]string{"-f", "{dir}/odd.yaml", "--from", "{dir}/dump.yaml", "--config", "{dir}/config.yaml"}, tt.as...)...)
		if code != tt.code || strings.Contains(stdout, note) != tt.noted {
			t.Errorf("%v: exit code %d, want %d\n%s%s", tt.as, code, tt.code, stdout, stderr)
		}
	}
}

// TestConfigure: what a new file says is in force from the next review on; what cannot be put
// in force changes nothing.
func TestConfigure(t *testing.T) {
	server := registryAt(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) })
	g := guardOf(t, `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"namespace":"shop","name":"cart"},
		"spec":{"template":{"spec":{"containers":[{"name":"app","image":"example.com/shop/cart:v1"}]}}}}`, &bytes.Buffer{}, server...)
	c, p, r := parsed(t, "--guesses=deny")
	g.options = &serveOptions{config: *c, policy: *p, registries: *r}
	if err := g.prepareAudit(config.Default().AuditSettings()); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		text string
		err  string
		mode policy.Mode
	}{
		{configHeader + "mode: warn\n", "", policy.ModeWarn},
		{configHeader + "mode: audit\nguesses: warn\n", "set both in the configuration file and by a flag: guesses and --guesses", policy.ModeWarn},
		{configHeader + "mode: audit\naudit: {destination: file, file: {path: /dev/null/audit.log}}\n", "opening the audit file: mkdir /dev/null: not a directory", policy.ModeWarn},
		{configHeader, "", policy.ModeEnforce},
	} {
		file, err := config.Parse([]byte(tt.text))
		if err != nil {
			t.Fatal(err)
		}
		message := ""
		if err := g.configure(file); err != nil {
			message = err.Error()
		}
		if s := g.currentSettings(); message != tt.err || s.Mode != tt.mode || s.Guesses != policy.GuessesDeny {
			t.Errorf("%q: %q, settings %+v", tt.text, message, s)
		}
	}
}
