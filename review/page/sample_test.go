package page_test

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/api/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/internal/answer"
	"github.com/mirrorset-guard/mirrorset-guard/review/page"
)

var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

func about() answer.Page {
	return answer.Page{Exit: "1: would be denied", Time: noon.Add(40 * time.Second), Cluster: "https://api.prod.example.com:6443", Requester: "jane (platform-admins)", Version: "v1.2.3", Whole: "mirrorset-guard check -o json"}
}

func fact(presence, detail string) *v1alpha1.Fact {
	at := noon
	return &v1alpha1.Fact{Presence: presence, Detail: detail, Time: &at}
}

// rerouted is an image with a mirror that answers so.
func rerouted(source, mirror, rest, result string, at *v1alpha1.Fact, consumers ...v1alpha1.Consumer) v1alpha1.Rerouted {
	origin := v1alpha1.Source{Reference: source + rest}
	r := v1alpha1.Rerouted{Image: source + rest, Result: result, Consumers: consumers}
	r.Before = v1alpha1.Route{Sources: []v1alpha1.Source{origin}}
	r.After = v1alpha1.Route{Entry: source, Sources: []v1alpha1.Source{{Reference: mirror + rest, Mirror: true, Fact: at}, origin}}
	return r
}

func blocked(r v1alpha1.Rerouted) v1alpha1.Rerouted {
	r.After.Sources[len(r.After.Sources)-1].Blocked = true
	return r
}

func consumer(kind, namespace, name, container string) v1alpha1.Consumer {
	return v1alpha1.Consumer{Kind: kind, Namespace: namespace, Name: name, Container: container, Use: "running"}
}

func digest(n int) string {
	return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte{byte(n), byte(n >> 8), byte(n >> 16)}))
}

// answerOf returns a document as the answer that was made of the same review.
func answerOf(doc v1alpha1.Review, drawn func(v1alpha1.Review) []answer.Block) *answer.Answer {
	a := &answer.Answer{Verdict: "Denied", Tone: answer.Bad, Subject: doc.Subject, Headline: doc.Summary, Notes: doc.Notes, Basis: []string{"Registries were asked from here."}}
	if doc.Allowed {
		a.Verdict, a.Tone = "Admitted", answer.Good
	}
	a.Add(answer.Section{ID: "findings", Title: "What will break, and for whom"}, page.Findings(doc.Findings), answer.Drawn{Blocks: func() []answer.Block { return drawn(doc) }})
	if doc.Forecast != nil {
		a.Add(answer.Section{ID: "rollout", Title: "The rollout"}, answer.Paragraphf("Forecast: it %s.", doc.Forecast.Summary), answer.Drawn{Blocks: func() []answer.Block { return page.Forecast(doc.Forecast) }})
		steps := answer.List{Title: "Step by step, at worst:"}
		if s := doc.Forecast.Simulation; s != nil {
			for i, step := range s.Steps {
				steps.Items = append(steps.Items, answer.Item{Mark: fmt.Sprintf("%3d.", i+1), Line: answer.Say(step.Text)})
			}
			for _, stall := range s.Stalls {
				steps.Items = append(steps.Items, answer.Item{Line: answer.Labelled(answer.Bad, "Stalled:", stall.Text)})
			}
		}
		a.Add(steps)
	}
	return a
}

// sampleReview has something in each section: routers that lose their image, a mirror that does not
// answer, a rollout that stalls.
func sampleReview() v1alpha1.Review {
	doc := v1alpha1.Review{
		Subject: "3 objects", Mode: "enforce", Images: v1alpha1.Counts{Total: 412, Rerouted: 0},
		Summary: "The change of 3 objects is refused: 3 of the 42 images it reroutes could not be pulled safely afterwards.",
		Notes:   []string{"registries were asked with the credentials of Secret openshift-config/pull-secret"},
	}
	const payload, mirror = "quay.io/openshift-release-dev/ocp-v4.0-art-dev", "mirror.example.com/openshift-release-dev/ocp-v4.0-art-dev"
	missing := fact("absent", `mirror.example.com answers 404: it does not hold this image, saying "manifest unknown"`)
	router := rerouted(payload, mirror, "@"+digest(1), "fails", missing, consumer("Deployment", "openshift-ingress", "router-default", "router"), consumer("Pod", "openshift-ingress", "router-default-7f8b9c-abc12", "router"))
	doc.Rerouted = append(doc.Rerouted, blocked(router))
	for i := range 26 {
		f := fact("present", "")
		f.Digest, f.Platforms = digest(i+10), []string{"linux/amd64", "linux/arm64"}
		doc.Rerouted = append(doc.Rerouted, blocked(rerouted(payload, mirror, "@"+digest(i+10), "verified", f, consumer("Deployment", []string{"openshift-dns", "openshift-monitoring", "openshift-console", "openshift-image-registry"}[i%4], fmt.Sprintf("operand-%d", i), "main"))))
	}
	for i := range 11 {
		f := fact("present", "")
		f.Digest, f.Platforms = digest(i+50), []string{"linux/amd64"}
		doc.Rerouted = append(doc.Rerouted, rerouted("quay.io/shop", "mirror.example.com/shop", fmt.Sprintf("/service-%d:v%d", i, i+1), "verified", f, consumer("Deployment", []string{"shop", "payments"}[i%2], fmt.Sprintf("service-%d", i), "app")))
	}
	doc.Rerouted = append(doc.Rerouted,
		rerouted("quay.io/shop", "mirror.example.com/shop", "/cart:v1", "fails", fact("absent", `mirror.example.com answers 404: it does not hold this image, saying "manifest unknown"`), consumer("Deployment", "shop", "cart", "app")),
		rerouted("registry.example.org/tools", "cache.example.net/tools", "/report:nightly", "unverified", fact("unreachable", "cache.example.net: no answer within 10 s"), consumer("CronJob", "reporting", "nightly", "report")),
		rerouted("registry.example.org/tools", "cache.example.net/tools", "/gone:v0", "fails already", fact("absent", "cache.example.net answers 404"), consumer("Deployment", "legacy", "gone", "app")),
	)
	drift := rerouted("quay.io/shop", "mirror.example.com/shop", "/web:stable", "verified", fact("present", ""), consumer("Deployment", "shop", "web", "app"))
	drift.After.Sources[0].Fact.Digest = digest(90)
	drift.After.Sources[1].Fact = fact("present", "")
	drift.After.Sources[1].Fact.Digest = digest(91)
	doc.Rerouted = append(doc.Rerouted, drift)
	doc.Images.Rerouted, doc.Images.Verified, doc.Images.Unverified = len(doc.Rerouted), 38, 1
	doc.Findings = sampleFindings(router, drift)
	doc.Forecast = sampleForecast()
	return doc
}

func sampleFindings(router, drift v1alpha1.Rerouted) []v1alpha1.Finding {
	return []v1alpha1.Finding{
		{
			Rule: "ImageMissing", Severity: "deny", Image: router.Image, Reason: "no mirror on its new route has the image; only the source has it",
			Detail:    router.After.Sources[0].Reference + `: mirror.example.com answers 404: it does not hold this image, saying "manifest unknown"` + "\n" + router.Image + ": found",
			Remedy:    "skopeo copy --all --preserve-digests docker://" + router.Image + " docker://" + router.After.Sources[0].Reference,
			Consumers: router.Consumers,
		},
		{
			Rule: "ImageMissing", Severity: "deny", Image: "quay.io/shop/cart:v1", Reason: "no mirror on its new route has the image; only the source has it",
			Detail:    "mirror.example.com/shop/cart:v1: mirror.example.com answers 404: it does not hold this image\nquay.io/shop/cart:v1: found",
			Remedy:    "skopeo copy --all --preserve-digests docker://quay.io/shop/cart:v1 docker://mirror.example.com/shop/cart:v1",
			Consumers: []v1alpha1.Consumer{consumer("Deployment", "shop", "cart", "app")},
		},
		{
			Rule: "RolloutStalls", Severity: "deny", Image: router.Image, Reason: "the rollout may stall at worker-3, as a pod could not pull it",
			Detail: "worker-3's drain stalls: the replacement of openshift-ingress/router-default-7f8b9c-abc12 on worker-1 (already updated) cannot pull it; budget openshift-ingress/router-default allows no eviction",
			Remedy: "make it pullable by its new route before nodes are drained for the change", Consumers: router.Consumers,
		},
		{
			Rule: "Unverified", Severity: "warn", Image: "registry.example.org/tools/report:nightly", Reason: "it could not be verified that the image stays available",
			Detail: "cache.example.net/tools/report:nightly: no answer within 10 s", Remedy: "make the registry answer, then try again",
			Consumers: []v1alpha1.Consumer{consumer("CronJob", "reporting", "nightly", "report")}, Exemptions: []string{"reporting-moves-house"},
		},
		{Rule: "ImageMissing", Severity: "warn", Image: "registry.example.org/tools/gone:v0", Reason: "no place on its route has the image, as today", Consumers: []v1alpha1.Consumer{consumer("Deployment", "legacy", "gone", "app")}},
		{Rule: "TagDrift", Severity: "warn", Image: drift.Image, Reason: "the tag stands for another image at the mirror", Consumers: drift.Consumers},
		{Rule: "BroadSource", Severity: "warn", Reason: "the source quay.io/shop covers images in 2 namespaces", Detail: "payments 5, shop 8", Remedy: "name narrower sources"},
	}
}

func sampleForecast() *v1alpha1.Forecast {
	const pod, image = "openshift-ingress/router-default-7f8b9c-abc12", "quay.io/openshift-release-dev/ocp-v4.0-art-dev"
	f := &v1alpha1.Forecast{Summary: "drains and reloads CRI-O on 8 nodes, one at a time, 40 to 120 minutes", Time: v1alpha1.Span{MinSeconds: 2400, MaxSeconds: 7200}}
	workers := v1alpha1.PoolStep{Name: "worker", Part: "takes", Decision: "drains and reloads CRI-O", Drains: true, Reasons: []string{"registries.conf: a new source with tag mirrors"}, Capacity: 1, MaxUnavailable: 1, Time: f.Time}
	for i := range 5 {
		workers.Nodes = append(workers.Nodes, fmt.Sprintf("worker-%d", i+1))
	}
	masters := v1alpha1.PoolStep{Name: "master", Part: "takes", Decision: "drains and reloads CRI-O", Drains: true, Nodes: []string{"master-0", "master-1", "master-2"}, Capacity: 1, Time: v1alpha1.Span{MinSeconds: 900, MaxSeconds: 2700}}
	gpu := v1alpha1.PoolStep{Name: "gpu", Part: "paused", Why: "the pool is paused"}
	f.Unknown = []string{"infrastructures"}
	f.Pools = []v1alpha1.PoolStep{masters, workers, gpu}
	done := func(node string) v1alpha1.Step {
		return v1alpha1.Step{Pool: "worker", Node: node, Drained: true, Updated: true, Text: node + " is drained and updated: shop/cart-7d4-x1 starts on worker-4"}
	}
	lost := done("worker-2")
	lost.Text = "worker-2 is drained and updated: " + pod + " moves to worker-1 and cannot pull " + image + "@" + digest(1)[:19]
	f.Simulation = &v1alpha1.Simulation{Obstacles: []v1alpha1.Obstacle{{Text: "budget shop/cart allows no eviction of shop/cart-7d4-x1 (worker-4)"}}, Steps: []v1alpha1.Step{done("worker-1"), lost}}
	f.Simulation.Stalls = []v1alpha1.Stall{{Pool: "worker", Node: "worker-3", Text: "worker-3's drain stalls: budget openshift-ingress/router-default allows no eviction"}}
	return f
}

// manyRerouted returns a review that reroutes n images, each of which a rule denies if deny is set.
func manyRerouted(n int, deny bool) v1alpha1.Review {
	doc := v1alpha1.Review{Subject: "ImageDigestMirrorSet all", Mode: "enforce", Allowed: !deny, Summary: "ImageDigestMirrorSet all reroutes many images.", Images: v1alpha1.Counts{Total: n, Rerouted: n}}
	for i := range n {
		f, result := fact("present", ""), "verified"
		if deny {
			f, result = fact("absent", "mirror.example.com answers 404: it does not hold this image"), "fails"
		}
		f.Digest, f.Platforms = digest(i), []string{"linux/amd64", "linux/arm64"}
		namespace := fmt.Sprintf("team-%03d-production", i%300)
		r := rerouted("quay.io/openshift-release-dev", "mirror.example.com/openshift-release-dev", fmt.Sprintf("/ocp-v4.0-art-dev-%d@%s", i%50, digest(i)), result, f, consumer("Deployment", namespace, "app", "main"))
		doc.Rerouted = append(doc.Rerouted, r)
		if deny {
			doc.Findings = append(doc.Findings, v1alpha1.Finding{
				Rule: "ImageMissing", Severity: "deny", Image: r.Image, Reason: "no mirror on its new route has the image", Consumers: r.Consumers,
				Detail: r.After.Sources[0].Reference + ": not there", Remedy: "skopeo copy --all docker://" + r.Image + " docker://" + r.After.Sources[0].Reference,
			})
		}
	}
	return doc
}

// hostileText is what a tenant may write into a name, an image or a message.
const hostileText = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>\u202e\u0000\x1b[31m{{.}}</style></title><!--`${1}"

// hostile returns the sample with hostileText and names of any length in each text.
func hostile() v1alpha1.Review {
	doc := sampleReview()
	spoil := func(s *string) { *s += hostileText + strings.Repeat("שלום", 250) }
	spoil(&doc.Subject)
	spoil(&doc.Summary)
	for i := range doc.Findings {
		f := &doc.Findings[i]
		for _, s := range []*string{&f.Rule, &f.Image, &f.Reason, &f.Detail, &f.Remedy} {
			spoil(s)
		}
		for k := range f.Consumers {
			spoil(&f.Consumers[k].Namespace)
			spoil(&f.Consumers[k].Name)
		}
	}
	for i := range doc.Rerouted {
		r := &doc.Rerouted[i]
		spoil(&r.Image)
		spoil(&r.After.Entry)
		for k := range r.After.Sources {
			spoil(&r.After.Sources[k].Reference)
			if f := r.After.Sources[k].Fact; f != nil {
				spoil(&f.Detail)
			}
		}
	}
	for i := range doc.Forecast.Pools {
		p := &doc.Forecast.Pools[i]
		spoil(&p.Name)
		for k := range p.Nodes {
			spoil(&p.Nodes[k])
		}
	}
	spoil(&doc.Forecast.Unknown[0])
	doc.Notes = append(doc.Notes, hostileText)
	return doc
}
