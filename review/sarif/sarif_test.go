package sarif

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	reader "github.com/owenrumney/go-sarif/v3/pkg/report/v210/sarif"
	"github.com/xeipuuv/gojsonschema"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/evidence"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rules"
	"github.com/mirrorset-guard/mirrorset-guard/review"
	"github.com/mirrorset-guard/mirrorset-guard/review/changefile"
)

const tagSet = `apiVersion: config.openshift.io/v1
kind: ImageTagMirrorSet
metadata: {name: apps}
spec:
  imageTagMirrors:
  - source: quay.io/shop
    mirrors: [mirror.example.com/shop]
`

const digestSet = `apiVersion: config.openshift.io/v1
kind: ImageDigestMirrorSet
metadata: {name: pinned}
spec: {imageDigestMirrors: [{source: quay.io/shop, mirrors: [mirror.example.com/shop]}]}
`

// changeOf reads files, each a name and its text.
func changeOf(namesAndTexts ...string) *changefile.Reader {
	r := new(changefile.Reader)
	for i := 0; i < len(namesAndTexts); i += 2 {
		r.Read(namesAndTexts[i], strings.NewReader(namesAndTexts[i+1]))
	}
	return r
}

func reroute(ref, entry string) evidence.Reroute {
	return evidence.Reroute{Image: policy.Image{Ref: ref}, After: mirrors.Route{Entry: entry}}
}

func imageFinding(rule, ref string) policy.Finding {
	return policy.Finding{Rule: rule, Severity: policy.Deny, Image: policy.Image{Ref: ref}, Reason: "no mirror has the image"}
}

func written(t *testing.T, r review.Record, c Change) log {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, r, c, "v0.1.0"); err != nil {
		t.Fatal(err)
	}
	validate(t, b.Bytes())
	var l log
	decoder := json.NewDecoder(bytes.NewReader(b.Bytes()))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&l); err != nil {
		t.Fatal(err)
	}
	return l
}

// validate holds data to the schema of SARIF 2.1.0, and to a library that reads it.
func validate(t *testing.T, data []byte) {
	t.Helper()
	result, err := gojsonschema.Validate(gojsonschema.NewStringLoader(schemaText(t)), gojsonschema.NewBytesLoader(data))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range result.Errors() {
		t.Errorf("the schema objects: %s", e)
	}
	if _, err := reader.FromBytes(data); err != nil {
		t.Errorf("go-sarif: %v", err)
	}
}

// schemaText returns OASIS' schema, which go-sarif has in its source and does not export.
func schemaText(t *testing.T) string {
	t.Helper()
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/owenrumney/go-sarif/v3").Output()
	if err != nil {
		t.Fatal(err)
	}
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(strings.TrimSpace(string(dir)), "pkg/report/v210/sarif/schema.go"), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	text, err := strconv.Unquote(file.Scope.Lookup("schema").Decl.(*ast.ValueSpec).Values[0].(*ast.BasicLit).Value)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func placesIn(l log) []string {
	var all []string
	for _, r := range l.Runs[0].Results {
		line := r.RuleID + " " + r.Level
		for _, at := range append(r.Locations, r.Related...) {
			line += fmt.Sprintf(" %s:%d:%d", at.Physical.Artifact.URI, at.Physical.Region.StartLine, at.Physical.Region.StartColumn)
		}
		all = append(all, line)
	}
	return all
}

// TestPlaces: each finding stands where a person would change something.
func TestPlaces(t *testing.T) {
	pinned := "quay.io/shop/cart@sha256:" + strings.Repeat("a", 64)
	c := changeOf("a/tags.yaml", "# tags\n---\n"+tagSet, "b c/digests.yaml", digestSet)
	r := review.Record{Subject: "The change of 2 objects"}
	r.Plan.Reroutes = []evidence.Reroute{reroute("quay.io/shop/cart:v1", "quay.io/shop"), reroute(pinned, "quay.io/shop"), reroute("quay.io/else:v1", "quay.io/else")}
	r.Verdict.Findings = []policy.Finding{
		imageFinding(policy.ImageMissing, "quay.io/shop/cart:v1"),
		imageFinding(policy.ImageMissing, pinned),
		imageFinding(policy.ImageMissing, "quay.io/else:v1"), // whose entry is not in the change
		{Rule: policy.NoEffect, Severity: policy.Warn, Reason: "r", Statement: &policy.Statement{Scope: "quay.io/shop", Objects: []string{"ImageDigestMirrorSet pinned"}}},
		{Rule: policy.RejectedByMCO, Severity: policy.Deny, Reason: "r", Statement: &policy.Statement{Scope: "quay.io/shop mirror.example.com/shop", Objects: []string{"ImageTagMirrorSet apps"}}},
		{Rule: policy.RejectedByMCO, Severity: policy.Deny, Reason: "r", Statement: &policy.Statement{Scope: "none", Objects: []string{"ImageDigestMirrorSet pinned"}}},
		{Rule: policy.RejectedByMCO, Severity: policy.Deny, Reason: "r", Statement: &policy.Statement{}}, // too large
		{Rule: policy.PoolPaused, Severity: policy.Info, Reason: "r"},
	}
	want := []string{
		"ImageMissing error a/tags.yaml:8:13 b%20c/digests.yaml:4:38",
		"ImageMissing error b%20c/digests.yaml:4:38 a/tags.yaml:8:13",
		"ImageMissing error a/tags.yaml:3:1",
		"NoEffect warning b%20c/digests.yaml:4:38",
		"RejectedByMCO error a/tags.yaml:8:13",
		"RejectedByMCO error b%20c/digests.yaml:1:1",
		"RejectedByMCO error a/tags.yaml:3:1",
		"PoolPaused note a/tags.yaml:3:1",
	}
	if diff := cmp.Diff(want, placesIn(written(t, r, c))); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestMessage: in the words of the table, and no name makes a link.
func TestMessage(t *testing.T) {
	r := review.Record{Subject: "ImageTagMirrorSet apps", Notes: []string{"asked without [credentials]"}}
	f := imageFinding(policy.ImageMissing, "quay.io/shop/cart:v1")
	f.Image.Consumers = []policy.Consumer{{Kind: "Deployment", Namespace: "shop", Name: "[a](https://evil.example.com)\x1b[31m"}}
	f.Detail, f.Remedy = []string{`mirror.example.com: 404, saying "\"`}, []string{"skopeo copy a b"}
	r.Verdict.Findings = []policy.Finding{f}
	run := written(t, r, changeOf("x.yaml", tagSet)).Runs[0]
	want := "quay.io/shop/cart:v1: no mirror has the image.\nused by Deployment shop/\\[a\\](https://evil.example.com)\\[31m\n- mirror.example.com: 404, saying \"\\\\\"\nTo do: skopeo copy a b"
	if got := run.Results[0].Message.Text; got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	if got := run.Invocation[0].Notifications[0].Message.Text; got != `asked without \[credentials\]` {
		t.Errorf("note: %s", got)
	}
	if got := len(run.Tool.Driver.Rules); got != len(rules.IDs()) {
		t.Errorf("%d rules", got)
	}
}

// TestFingerprint: a finding is the same one while its reason counts images; and the mode lowers its level.
func TestFingerprint(t *testing.T) {
	of := func(reason string, mode policy.Mode) result {
		r := review.Record{Subject: "ImageTagMirrorSet apps"}
		r.Verdict = policy.Verdict{Judgement: policy.Judgement{Findings: []policy.Finding{{Rule: policy.BroadSource, Severity: policy.Deny, Reason: reason, Statement: &policy.Statement{Scope: "quay.io/shop"}}}}, Allowed: mode != policy.ModeEnforce, Mode: mode}
		return written(t, r, changeOf("x.yaml", tagSet)).Runs[0].Results[0]
	}
	a, b := of("covers 5 images", policy.ModeEnforce), of("covers 6 images", policy.ModeWarn)
	if diff := cmp.Diff(a.Fingerprints, b.Fingerprints); diff != "" {
		t.Error(diff)
	}
	if a.Level != "error" || b.Level != "warning" {
		t.Errorf("levels %s, %s", a.Level, b.Level)
	}
}

// TestFiles: paths below the current folder are relative to it; standard input is no file.
func TestFiles(t *testing.T) {
	folder, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	r := review.Record{Verdict: policy.Verdict{Judgement: policy.Judgement{Findings: []policy.Finding{{Rule: policy.NoEffect, Reason: "r"}}}}}
	for name, want := range map[string]string{
		"./a.yaml": "a.yaml", "../a.yaml": "../a.yaml", filepath.Join(folder, "b", "a#.yaml"): "b/a%23.yaml", "/elsewhere/a.yaml": "file:///elsewhere/a.yaml", "a:b.yaml": "./a:b.yaml",
		changefile.StandardInput: "",
	} {
		l := written(t, r, changeOf(name, tagSet)).Runs[0].Results[0].Locations[0].Physical.Artifact
		if l.URI != want || (want == "") != (l.Description != nil) {
			t.Errorf("%s: %+v, want %s", name, l, want)
		}
	}
}

// TestBounded: as many results as are shown, and a note about the others; a message is cut.
func TestBounded(t *testing.T) {
	var r review.Record
	f := imageFinding(policy.ImageMissing, "quay.io/shop/cart:v1")
	f.Reason = strings.Repeat("x", 1<<16)
	for range maxResults + 2 {
		r.Verdict.Findings = append(r.Verdict.Findings, f)
		f.Reason = "r"
	}
	var b bytes.Buffer
	if err := Write(&b, r, changeOf("x.yaml", tagSet), "v0.1.0"); err != nil {
		t.Fatal(err)
	}
	var l log
	if err := json.Unmarshal(b.Bytes(), &l); err != nil {
		t.Fatal(err)
	}
	run := l.Runs[0]
	if len(run.Results) != maxResults || run.Invocation[0].Notifications[0].Message.Text != "2 findings are left out, the least severe" || len(run.Results[0].Message.Text) > maxMessage+10 {
		t.Errorf("%d results, %+v", len(run.Results), run.Invocation)
	}
}
