package page_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/internal/answer"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/release"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/evidence"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/review"
	"github.com/mirrorset-guard/mirrorset-guard/review/readiness"
	"github.com/mirrorset-guard/mirrorset-guard/review/readiness/target"
)

// manyReleased returns a release of n images, all of which are in a state.
func manyReleased(n int, state readiness.State) *readiness.Readiness {
	const payload, mirror = "quay.io/openshift-release-dev/ocp-v4.0-art-dev", "mirror.example.com/openshift/release"
	r := &readiness.Readiness{
		Version: "4.21.3", Image: "quay.io/openshift-release-dev/ocp-release@" + digest(0), Took: 21 * time.Second, Platform: "linux/amd64",
		Choice:    target.Release{Why: "the newest of the 2 updates that ClusterVersion recommends (4.20.10, 4.21.3)"},
		ReadAt:    mirrors.Location{Ref: "mirror.example.com/openshift/release-images@" + digest(0)},
		Signature: readiness.Signature{State: readiness.Ready, Reason: "signed, and verified with the keys of ConfigMap openshift-config-managed/release-verification", Detail: []string{"ConfigMap openshift-config-managed/mirrored-release-signatures, sha256-5e1d-1"}},
	}
	for i := range n {
		name := fmt.Sprintf("%s-%d", []string{"cluster-version-operator", "etcd", "cli", "machine-config-operator", "haproxy-router"}[i%5], i)
		img := readiness.Image{Image: release.Image{Name: name, Ref: payload + "@" + digest(i), Level: 10 + 80*i/n}, IsRelease: i == 0, State: state, Required: true}
		if img.IsRelease {
			img.Ref = r.Image
		}
		if state == readiness.Ready {
			img.At, img.Signatures = mirror+"@"+digest(i), []evidence.SignatureFinding{{State: "accepted"}}
		} else {
			img.Findings = []policy.Finding{missingPart(state, &img, mirror)}
		}
		r.Images = append(r.Images, img)
	}
	return r
}

// missingPart says why an image of a release is not ready.
func missingPart(state readiness.State, img *readiness.Image, mirror string) policy.Finding {
	_, digest, _ := strings.Cut(img.Ref, "@")
	at := mirror + "@" + digest
	if state == readiness.Unknown {
		return policy.Finding{Rule: "Unverified", Severity: policy.Warn, Image: policy.Image{Ref: img.Ref}, Reason: "it could not be verified that the image can be pulled", Detail: []string{at + ": no answer within 10 s"}, Remedy: []string{"make the registry answer, then try again"}}
	}
	return policy.Finding{
		Rule: "ImageMissing", Severity: policy.Deny, Image: policy.Image{Ref: img.Ref}, Reason: "no mirror on its route has the image",
		Detail: []string{at + `: mirror.example.com answers 404: it does not hold this image, saying "manifest unknown"`},
		Copy:   &policy.Copy{Image: policy.Image{Ref: img.Ref}, From: []mirrors.Location{{Ref: img.Ref}}, Found: true, To: mirrors.Location{Ref: at}},
	}
}

// sampleRelease has something in each section.
func sampleRelease() *readiness.Readiness {
	r := manyReleased(48, readiness.Ready)
	for i, state := range map[int]readiness.State{7: readiness.NotReady, 8: readiness.Unknown, 20: readiness.NotReady, 47: readiness.NotReady} {
		img := &r.Images[i]
		img.State, img.At, img.Signatures = state, "", nil
		img.Findings = []policy.Finding{missingPart(state, img, "mirror.example.com/openshift/release")}
	}
	r.Judged = review.Judged{Judgement: policy.Judgement{Findings: r.Images[7].Findings}}
	r.Images[20].Findings = nil
	r.Images[30].Findings = []policy.Finding{{Rule: "SignatureMissing", Severity: policy.Warn, Image: policy.Image{Ref: r.Images[30].Ref}, Reason: "no signature of linux/arm64 is there"}}
	r.Images[47].Name, r.Images[47].OS, r.Images[47].Pools = "rhel-coreos", true, []string{"master", "worker"}
	r.Signature = readiness.Signature{
		State: readiness.Unknown, Reason: "no ConfigMap of openshift-config-managed has a signature of " + digest(0), Detail: []string{"CVO would then ask https://store.example.com/signatures, which is not done from here"},
		Remedy: "oc apply -f signature-configmap.yaml (oc-mirror writes it to working-dir/cluster-resources)",
	}
	r.Problems = []readiness.Problem{
		{About: readiness.AboutConfiguration, State: readiness.NotReady, Reason: "the Machine Config Operator rejects the configuration in force", Detail: []string{"ImageDigestMirrorSet release: conflicting mirrorSourcePolicy"}},
		{About: readiness.AboutImage, State: readiness.Unknown, Reason: "whether the release brings further image policies is not known", Detail: []string{"mirror.example.com answers 429"}},
	}
	r.Notes = []string{"registries were asked with the credentials of Secret openshift-config/pull-secret"}
	return r
}

// hostileRelease returns the sample with hostileText and names of any length in each text.
func hostileRelease() *readiness.Readiness {
	r := sampleRelease()
	spoil := func(all ...*string) {
		for _, s := range all {
			*s += hostileText + strings.Repeat("שלום", 250)
		}
	}
	spoil(&r.Version, &r.Image, &r.Choice.Why, &r.ReadAt.Ref, &r.Platform, &r.Signature.Reason, &r.Signature.Detail[0], &r.Signature.Remedy)
	spoil(&r.Problems[0].Reason, &r.Problems[0].Detail[0], &r.Notes[0])
	for i := range r.Images {
		img := &r.Images[i]
		spoil(&img.Name, &img.Ref, &img.At)
		for k := range img.Signatures {
			spoil(&img.Signatures[k].State)
		}
		for k := range img.Findings {
			spoil(&img.Findings[k].Rule, &img.Findings[k].Reason)
		}
	}
	return r
}

// TestReleaseStates: only what is said to be ready looks as if it were.
func TestReleaseStates(t *testing.T) {
	for _, state := range []readiness.State{readiness.Unknown, readiness.NotReady, readiness.Ready} {
		out := pageOf(t, written{"", manyReleased(1, state).Answer()})
		good := strings.Contains(out, "<td class=\"good\">") && strings.Contains(out, `"verdict good"`)
		if !strings.Contains(out, "</span> "+state.String()+"</p>") || good != (state == readiness.Ready) {
			t.Errorf("%s: good is %t", state, good)
		}
	}
}

// TestReleaseLeftOut: of more images than there is room for, the worst are shown, and the page says how many are not.
func TestReleaseLeftOut(t *testing.T) {
	r := manyReleased(100_000, readiness.Ready)
	r.Images[99_999].State, r.Images[99_998].State = readiness.NotReady, readiness.Unknown
	out := pageOf(t, written{"", r.Answer()})
	rows, cells := strings.Count(out, `<tr id="image-`), strings.Count(out, `<a href="#image-`)
	if len(out) > answer.MaxPage || rows != 1000 || cells != rows {
		t.Errorf("%d bytes, %d rows, %d cells", len(out), rows, cells)
	}
	for _, want := range []string{`<tr id="image-1"><td class="bad">`, `<tr id="image-2"><td class="unknown">`, "The worst 1,000 of 100,000 images; 99,000 more are left out"} {
		if !strings.Contains(out, want) {
			t.Errorf("there is no %s", want)
		}
	}
}
