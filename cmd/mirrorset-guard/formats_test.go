package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/mirrorset-guard/mirrorset-guard/test/clitest"
)

// Files that an earlier version wrote are read for as long as docs/upgrade.md promises it. They are recorded in
// testdata/formats, and not written anew when what is written changes.

func formatFile(name string) string { return filepath.Join("testdata", "formats", name) }

// TestRecordedFormats: what was written when the formats were recorded is read in whole.
func TestRecordedFormats(t *testing.T) {
	for _, row := range []struct {
		args []string
		says string
	}{
		{[]string{"config", "validate", formatFile("config.yaml")}, "a good configuration"},
		{[]string{"inventory", "--from", formatFile("dump.json")}, "running     Deployment openshift-ingress/router-default (router), Pod openshift-ingress/router-default-7f8b9c-abc12 (router)"},
		{[]string{"rollout", "--from", formatFile("dump.json")}, "worker"},
	} {
		got := clitest.Invoke(t, runUnderOwnName, "", row.args...)
		if got.Code != 0 || !strings.Contains(got.Out, row.says) || strings.Contains(got.Err, "could not be read") {
			t.Errorf("%s: exit code %d, want %q in\n%s%s", row.args, got.Code, row.says, got.Out, got.Err)
		}
	}
}

// TestDumpFormatIsKept: a dump is written as it was recorded. Whoever changes that makes dumps which the
// previous version refuses, or reads by half: see docs/upgrade.md before you record it anew.
func TestDumpFormatIsKept(t *testing.T) {
	want, err := os.ReadFile(formatFile("dump.json"))
	if err != nil {
		t.Fatal(err)
	}
	if got := clitest.Invoke(t, runUnderOwnName, "", "snapshot", "--from", formatFile("dump.json")); got.Out != string(want) {
		t.Errorf("exit code %d, %s\nit is written as\n%s", got.Code, got.Err, got.Out)
	}
}

// TestLaterFormats: what a later version has written is refused, and the message says so.
func TestLaterFormats(t *testing.T) {
	for _, row := range []struct {
		what, file, old, later string
		args                   []string
		code                   int
		says                   string
	}{
		{"a configuration", "config.yaml", "/v1alpha1", "/v1beta1", []string{"config", "validate"}, 2, `apiVersion: Unsupported value: "config.mirrorset-guard.io/v1beta1"`},
		{"a field of a configuration", "config.yaml", "verifyBlobs: ", "verifyLayers: ", []string{"config", "validate"}, 2, "verifyLayers"},
		{"a configuration for check", "config.yaml", "/v1alpha1", "/v1beta1", []string{"check", "-f", formatFile("change.yaml"), "--from", formatFile("dump.json"), "--config"}, 2, `apiVersion: Unsupported value: "config.mirrorset-guard.io/v1beta1"`},
		{"a version of a dump", "dump.json", `v1alpha1","kind":"ImageUsers`, `v1alpha2","kind":"ImageUsers`, []string{"inventory", "--from"}, 2, "ImageUsers of mirrorset-guard.io/v1alpha2, while this version reads mirrorset-guard.io/v1alpha1: a later version of mirrorset-guard has written it"},
		{"a kind of a dump", "dump.json", "ImageUsers", "ImageConsumers", []string{"check", "-f", formatFile("change.yaml"), "--from"}, 2, "ImageConsumers of mirrorset-guard.io/v1alpha1, which this version does not know: a later version of mirrorset-guard has written it"},
		{"a field of a dump", "dump.json", `"use":"referenced"`, `"use":"referenced","from":"x"`, []string{"rollout", "--from"}, 2, `unknown field "from": a later version of mirrorset-guard has written it`},
		{"a field of pods in a dump", "dump.json", `"gracePeriodSeconds"`, `"restarts":3,"gracePeriodSeconds"`, []string{"render", "--from"}, 2, `unknown field "restarts": a later version of mirrorset-guard has written it`},
		{"a value in a dump", "dump.json", `"use":"referenced"`, `"use":"planned"`, []string{"explain", "quay.io/shop/cart:v1", "--from"}, 2, `use "planned" is not one of referenced, running and history: a later version of mirrorset-guard has written it`},
	} {
		t.Run(row.what, func(t *testing.T) {
			text, err := os.ReadFile(formatFile(row.file))
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(text), row.old) {
				t.Fatalf("%s does not hold %s", row.file, row.old)
			}
			file := clitest.Written(t, row.file, strings.ReplaceAll(string(text), row.old, row.later))
			got := clitest.Invoke(t, runUnderOwnName, "", append(row.args, file)...)
			if got.Code != row.code || !strings.Contains(got.Out+got.Err, row.says) {
				t.Errorf("exit code %d, want %d and %q in\n%s%s", got.Code, row.code, row.says, got.Out, got.Err)
			}
		})
	}
}

// TestPrintedKinds: documents that commands print may lie beside a dump. They are no part of it, and of no
// later version.
func TestPrintedKinds(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "documents.md"))
	if err != nil {
		t.Fatal(err)
	}
	dump, err := os.ReadFile(formatFile("dump.json"))
	if err != nil {
		t.Fatal(err)
	}
	kinds := regexp.MustCompile(`\(kind ([A-Za-z]+)\)`).FindAllStringSubmatch(string(text), -1)
	if len(kinds) < 7 {
		t.Fatalf("docs/documents.md has %d kinds", len(kinds))
	}
	dir := t.TempDir()
	files := map[string]string{"dump.json": string(dump)}
	for _, k := range kinds {
		files[k[1]+".json"] = `{"apiVersion":"mirrorset-guard.io/v1alpha1","kind":"` + k[1] + `"}`
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got := clitest.Invoke(t, runUnderOwnName, "", "inventory", "--from", dir); got.Code != 0 {
		t.Errorf("exit code %d\n%s", got.Code, got.Err)
	}
}
