package page

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/mirrorset-guard/mirrorset-guard/api/v1alpha1"
)

// manyReleased returns a release of n images, all of which are in a state.
func manyReleased(n int, state string) v1alpha1.ReleaseReview {
	const payload, mirror = "quay.io/openshift-release-dev/ocp-v4.0-art-dev", "mirror.example.com/openshift/release"
	doc := v1alpha1.ReleaseReview{
		Verdict: state, Summary: "Some of its images can be pulled by all nodes that need them.", Version: "4.21.3", Image: "quay.io/openshift-release-dev/ocp-release@" + digest(0), Chosen: "the newest of the 2 updates that ClusterVersion recommends (4.20.10, 4.21.3)",
		ReadFrom: "mirror.example.com/openshift/release-images@" + digest(0), Platform: "linux/amd64", Seconds: 21, Counts: v1alpha1.ReleaseCounts{Images: n},
		Signature: v1alpha1.ReleaseSignature{State: "READY", Reason: "signed, and verified with the keys of ConfigMap openshift-config-managed/release-verification", Detail: []string{"ConfigMap openshift-config-managed/mirrored-release-signatures, sha256-5e1d-1"}},
		Unchecked: []string{"whether the operators are Upgradeable, and what the update itself does (oc adm upgrade says so)", "the images of operators and catalogs for that version of OpenShift"},
	}
	*map[string]*int{"READY": &doc.Counts.Ready, "NOT READY": &doc.Counts.NotReady, "UNKNOWN": &doc.Counts.Unknown}[state] = n
	for i := range n {
		level := 10 + 80*i/n
		img := v1alpha1.ReleaseImage{Name: fmt.Sprintf("%s-%d", []string{"cluster-version-operator", "etcd", "cli", "machine-config-operator", "haproxy-router"}[i%5], i), Image: payload + "@" + digest(i), RunLevel: &level, State: state, SignatureRequired: true}
		if i == 0 {
			img.Name, img.Image, img.RunLevel = "release", doc.Image, nil
		}
		if state == "READY" {
			img.At, img.Signatures = mirror+"@"+digest(i), []v1alpha1.Signature{{State: "accepted"}}
		} else {
			img.Findings = []v1alpha1.Finding{missingPart(state, &img, mirror)}
		}
		doc.Images = append(doc.Images, img)
	}
	return doc
}

// missingPart says why an image of a release is not ready.
func missingPart(state string, img *v1alpha1.ReleaseImage, mirror string) v1alpha1.Finding {
	_, digest, _ := strings.Cut(img.Image, "@")
	at := mirror + "@" + digest
	if state == "UNKNOWN" {
		return v1alpha1.Finding{Rule: "Unverified", Severity: "warn", Image: img.Image, Reason: "it could not be verified that the image can be pulled", Detail: at + ": no answer within 10 s", Remedy: "make the registry answer, then try again"}
	}
	return v1alpha1.Finding{
		Rule: "ImageMissing", Severity: "deny", Image: img.Image, Reason: "no mirror on its route has the image", Detail: at + `: mirror.example.com answers 404: it does not hold this image, saying "manifest unknown"`,
		Remedy: "skopeo copy --all --preserve-digests docker://" + img.Image + " docker://" + at,
	}
}

// sampleRelease has something in each section.
func sampleRelease() v1alpha1.ReleaseReview {
	doc := manyReleased(48, "READY")
	doc.Verdict = "NOT READY"
	for i, state := range map[int]string{7: "NOT READY", 8: "UNKNOWN", 20: "NOT READY", 47: "NOT READY"} {
		img := &doc.Images[i]
		img.State, img.At, img.Signatures = state, "", nil
		img.Findings = []v1alpha1.Finding{missingPart(state, img, "mirror.example.com/openshift/release")}
	}
	doc.Images[20].Findings = nil
	doc.Images[30].Findings = []v1alpha1.Finding{{Rule: "SignatureMissing", Severity: "warn", Image: doc.Images[30].Image, Reason: "no signature of linux/arm64 is there"}}
	doc.Images[47].Name, doc.Images[47].RunLevel, doc.Images[47].Pools = "rhel-coreos", nil, []string{"master", "worker"}
	doc.Counts = v1alpha1.ReleaseCounts{Images: 48, Ready: 44, NotReady: 3, Unknown: 1}
	doc.Signature = v1alpha1.ReleaseSignature{
		State: "UNKNOWN", Reason: "no ConfigMap of openshift-config-managed has a signature of " + digest(0), Detail: []string{"CVO would then ask https://store.example.com/signatures, which is not done from here"},
		Remedy: "oc apply -f signature-configmap.yaml (oc-mirror writes it to working-dir/cluster-resources)",
	}
	doc.Problems = []v1alpha1.ReleaseProblem{
		{About: "the configuration", State: "NOT READY", Reason: "the Machine Config Operator rejects the configuration in force", Detail: []string{"ImageDigestMirrorSet release: conflicting mirrorSourcePolicy"}},
		{About: "the release image", State: "UNKNOWN", Reason: "whether the release brings further image policies is not known", Detail: []string{"mirror.example.com answers 429"}},
	}
	doc.Remedy = "mirrorset-guard plan --release 4.21.3 --missing > copy.sh && sh copy.sh"
	doc.Notes = []string{"registries were asked with the credentials of Secret openshift-config/pull-secret"}
	return doc
}

// hostileRelease returns the sample with hostileText and names of any length in each text.
func hostileRelease() v1alpha1.ReleaseReview {
	doc := sampleRelease()
	spoil := func(all ...*string) {
		for _, s := range all {
			*s += hostileText + strings.Repeat("שלום", 250)
		}
	}
	spoil(&doc.Summary, &doc.Version, &doc.Image, &doc.Chosen, &doc.ReadFrom, &doc.Platform, &doc.Signature.State, &doc.Signature.Reason, &doc.Signature.Detail[0], &doc.Signature.Remedy)
	spoil(&doc.Problems[0].About, &doc.Problems[0].State, &doc.Problems[0].Reason, &doc.Problems[0].Detail[0], &doc.Remedy, &doc.Unchecked[0], &doc.Notes[0])
	for i := range doc.Images {
		img := &doc.Images[i]
		spoil(&img.Name, &img.Image, &img.At, &img.State)
		for k := range img.Signatures {
			spoil(&img.Signatures[k].State)
		}
		for k := range img.Findings {
			f := &img.Findings[k]
			spoil(&f.Rule, &f.Severity, &f.Reason, &f.Detail, &f.Remedy)
		}
	}
	return doc
}

// TestReleaseStates: only what is said to be ready looks as if it were.
func TestReleaseStates(t *testing.T) {
	for state, want := range map[string]string{
		"READY": "<dd>0: ready</dd>", "NOT READY": "<dd>1: not ready</dd>", "UNKNOWN": "<dd>2: not all could be determined</dd>", "": "<dd>2: ", "ready": "<dd>2: ",
	} {
		doc := sampleRelease()
		doc.Verdict, doc.Images = state, []v1alpha1.ReleaseImage{{Name: "a", Image: "quay.io/a", State: state}}
		out := pageOf(t, written{state, func(w io.Writer) error { return WriteRelease(w, doc, sampleContext()) }})
		if good := strings.Contains(out, "<td class=\"good\">") && strings.Contains(out, `"verdict good"`); !strings.Contains(out, want) || good != (state == "READY") {
			t.Errorf("%q: good is %t, or there is no %s", state, good, want)
		}
	}
}

// TestReleaseLeftOut: of more images than there is room for, the worst are shown, and the page says how many are not.
func TestReleaseLeftOut(t *testing.T) {
	doc := manyReleased(100_000, "READY")
	doc.Images[99_999].State, doc.Images[99_998].State = "NOT READY", "UNKNOWN"
	var b bytes.Buffer
	if err := WriteRelease(&b, doc, sampleContext()); err != nil {
		t.Fatal(err)
	}
	out := b.String()
	rows, cells := strings.Count(out, `<tr id="image-`), strings.Count(out, `<a href="#image-`)
	if len(out) > MaxBytes || rows != maxReleased || cells != rows {
		t.Errorf("%d bytes, %d rows, %d cells", len(out), rows, cells)
	}
	for _, want := range []string{`<tr id="image-100000"`, `<tr id="image-99999"`, "The worst 1,000 of 100,000 images; 99,000 more are left out"} {
		if !strings.Contains(out, want) {
			t.Errorf("there is no %s", want)
		}
	}
}
