package page

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/api/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
)

const (
	// findingsRoom is how many bytes findings in full may take, briefRoom how many where there are many
	// images. The list of images may take the rest of MaxBytes.
	findingsRoom, briefRoom = 450_000, 150_000
	// maxConsumers is how many users of an image are named, maxCardLines how many places and commands.
	maxConsumers, maxCardLines = 12, 40
	// openFindings is how many denials are unfolded.
	openFindings = 10
	// maxGroups bounds the table of findings, and the namespaces of a row of it: reasons may hold names.
	maxGroups = 60
)

// routers is the namespace of the ingress routers, the way into the cluster.
const routers = "openshift-ingress"

// A weight is a severity for people; the heaviest comes first.
type weight struct{ severity, kind, word string }

var weights = []weight{{"deny", "bad", "refuses the change"}, {"warn", "warn", "warning"}, {"info", "note", "remark"}}

func weightOf(severity string) int {
	return slices.IndexFunc(weights, func(w weight) bool { return w.severity == severity })
}

// addFindings adds findings: a table by rule and reason, and each in full while there is room. Without a change, nothing is refused.
func (l *layout) addFindings(findings []v1alpha1.Finding, standing bool, room int) {
	title := "What to know"
	if slices.ContainsFunc(findings, func(f v1alpha1.Finding) bool { return f.Severity == "deny" }) {
		title = "What will break, and for whom"
	}
	if standing {
		title = "What is wrong"
	}
	// Routers come first among those of a severity; the rest are in order already.
	findings = slices.Clone(findings)
	slices.SortStableFunc(findings, func(a, b v1alpha1.Finding) int {
		return cmp.Or(cmp.Compare(weightOf(a.Severity), weightOf(b.Severity)), cmp.Compare(order(!ofRouters(a)), order(!ofRouters(b))))
	})
	inFull := make([]card, len(findings))
	for i := range findings {
		inFull[i] = findingCard(i, &findings[i])
	}
	cards := partOf("card", nil, inFull)
	cards.most = room
	byRule := tableOf(table{Caption: "By rule and reason"}, groups(findings, standing), "Weight", "Rule", "Reason", "Images", "Namespaces")
	l.add(section{ID: "findings", Title: title, Note: text.Count(len(findings), "finding")}, byRule, cards)
}

func ofRouters(f v1alpha1.Finding) bool {
	return slices.ContainsFunc(f.Consumers, func(c v1alpha1.Consumer) bool { return c.Namespace == routers && c.Use != "history" })
}

func order(b bool) int {
	if b {
		return 1
	}
	return 0
}

// findingCard returns the finding with index i in full.
func findingCard(i int, f *v1alpha1.Finding) card {
	c := card{ID: findingID(i), Kind: kindOf(f), Title: f.Rule, Subject: cmp.Or(text.ShortDigests(f.Image), "the configuration as a whole"), Reason: f.Reason}
	c.Open = i < openFindings && f.Severity == "deny"
	if ofRouters(*f) {
		c.Tag = "ingress router"
	}
	c.Details = details(
		cardLine{Name: "Image", Code: f.Image},
		cardLine{Name: "Used by", Lines: consumerNames(f.Consumers)},
		cardLine{Name: "Looked at", Lines: text.First(nonEmptyLines(text.ShortDigests(f.Detail)), maxCardLines, "place")},
		cardLine{Name: "To do", Commands: strings.Join(text.First(nonEmptyLines(f.Remedy), maxCardLines, ""), "\n")},
	)
	return c
}

func findingID(i int) string { return "finding-" + strconv.Itoa(i+1) }

// kindOf returns the kind of a finding.
func kindOf(f *v1alpha1.Finding) string {
	if i := weightOf(f.Severity); i >= 0 {
		return weights[i].kind
	}
	return "unknown"
}

// groups returns a row for the findings of a rule for one reason.
func groups(findings []v1alpha1.Finding, standing bool) []row {
	type group struct {
		first      int
		images     int
		namespaces []string
	}
	type key struct{ severity, rule, reason string }
	byKey := map[key]*group{}
	var keys []key
	for i := range findings {
		f := &findings[i]
		k := key{f.Severity, f.Rule, f.Reason}
		if byKey[k] == nil {
			if len(keys) == maxGroups {
				continue
			}
			byKey[k] = &group{first: i}
			keys = append(keys, k)
		}
		g := byKey[k]
		g.images += order(f.Image != "")
		for _, ns := range namespacesOf(f.Consumers) {
			if !slices.Contains(g.namespaces, ns) && len(g.namespaces) < maxGroups {
				g.namespaces = append(g.namespaces, ns)
			}
		}
	}
	rows := make([]row, len(keys))
	for i, k := range keys {
		g := byKey[k]
		f := &findings[g.first]
		word := "failure"
		if w := weightOf(f.Severity); w > 0 || w == 0 && !standing {
			word = weights[w].word
		}
		rows[i].Cells = []cell{{Kind: kindOf(f), Text: word}, {Text: f.Rule, Link: "#" + findingID(g.first)}, {Text: f.Reason}, numberCell(g.images), {Text: text.Names(g.namespaces, maxNamed)}}
	}
	return rows
}

// consumerNames names users as "Deployment shop/cart (app)", and counts those beyond maxConsumers.
func consumerNames(consumers []v1alpha1.Consumer) []string {
	var names []string
	for _, c := range consumers[:min(len(consumers), maxConsumers)] {
		name := c.Kind + " "
		if c.Namespace != "" {
			name += c.Namespace + "/"
		}
		name += c.Name
		if c.Container != "" {
			name += " (" + c.Container + ")"
		}
		if c.Guessed {
			name += ", by the look of the object"
		}
		names = append(names, name)
	}
	if more := len(consumers) - len(names); more > 0 {
		names = append(names, "and "+text.Number(more)+" more")
	}
	return names
}

func nonEmptyLines(s string) []string {
	var all []string
	for line := range strings.Lines(s) {
		if line = strings.TrimSpace(line); line != "" {
			all = append(all, line)
		}
	}
	return all
}
