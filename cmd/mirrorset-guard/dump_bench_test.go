package main

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/mirrorset-guard/mirrorset-guard/test/clitest"
)

// listOfDump names a dump that this test is to decode as a list of pods.
const listOfDump = "TEST_LIST_OF_DUMP"

// BenchmarkDump runs commands on a dump of 100,000 pods, each in a process of its own: their time, the most memory that was
// resident, and how many times as long they take as decoding the same file into a list of pods, the least that it could take.
func BenchmarkDump(b *testing.B) {
	if file := os.Getenv(listOfDump); file != "" {
		data, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(data, new(corev1.PodList))
		}
		if err != nil {
			b.Fatal(err)
		}
		return
	}
	change := clitest.Written(b, "change.yaml", "{apiVersion: config.openshift.io/v1, kind: ImageTagMirrorSet, metadata: {name: other}, spec: {imageTagMirrors: [{source: docker.io/x, mirrors: [m.example.com/x]}]}}\n")
	dump := filepath.Join(b.TempDir(), "dump.json")
	file, err := os.Create(dump) // not by way of this process's memory, which would count as the children's until they begin
	if err == nil {
		err = errors.Join(clitest.DumpOfPods(file, 100_000), file.Close())
	}
	if err != nil {
		b.Fatal(err)
	}
	var floor time.Duration
	for _, row := range []struct {
		name string
		env  string
		args []string
	}{
		{"list", listOfDump + "=" + dump, []string{"-test.run=^$", "-test.bench=^BenchmarkDump$", "-test.benchtime=1x"}},
		{"check", asProgram + "=1", []string{"check", "-f", change, "--from", dump}},
		{"render", asProgram + "=1", []string{"render", "--from", dump}},
	} {
		b.Run(row.name, func(b *testing.B) {
			var taken time.Duration
			var resident int64 // in KiB
			for b.Loop() {
				child := exec.CommandContext(b.Context(), os.Args[0], row.args...)
				child.Env = append(os.Environ(), row.env)
				began := time.Now()
				if out, err := child.CombinedOutput(); err != nil {
					b.Fatalf("%v\n%s", err, out)
				}
				taken += time.Since(began)
				if usage, ok := child.ProcessState.SysUsage().(*syscall.Rusage); ok {
					resident = max(resident, usage.Maxrss)
				}
			}
			taken /= time.Duration(b.N)
			if floor == 0 {
				floor = taken
			}
			b.ReportMetric(float64(resident>>10), "MiB")
			b.ReportMetric(taken.Seconds()/floor.Seconds(), "floors")
		})
	}
}
