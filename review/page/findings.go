package page

import (
	"cmp"
	"fmt"
	"html/template"
	"slices"
	"strings"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/api/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
)

const (
	// maxConsumers is how many users of an image are named, maxCardLines how many places and commands.
	maxConsumers, maxCardLines = 12, 40
	// openFindings is how many denials are unfolded.
	openFindings = 10
)

// routers is the namespace of the ingress routers, the way into the cluster.
const routers = "openshift-ingress"

// A findingCard is a finding in full.
type findingCard struct {
	v1alpha1.Finding
	Number int
	Kind   string
	// Router is set if routers use the image.
	Router bool
	Open   bool
	// standing is set where there is no change that could be refused.
	standing bool
}

func findingCards(findings []v1alpha1.Finding) []findingCard {
	cards := make([]findingCard, 0, len(findings))
	for _, f := range findings {
		card := findingCard{Finding: f, Kind: severityKinds[f.Severity]}
		card.Router = slices.ContainsFunc(f.Consumers, func(c v1alpha1.Consumer) bool { return c.Namespace == routers && c.Use != "history" })
		cards = append(cards, card)
	}
	// Routers come first among those of a severity; the rest are in order already.
	slices.SortStableFunc(cards, func(a, b findingCard) int {
		return cmp.Or(cmp.Compare(severityOrder[a.Severity], severityOrder[b.Severity]), cmp.Compare(order(!a.Router), order(!b.Router)))
	})
	for i := range cards {
		cards[i].Number, cards[i].Open = i+1, i < openFindings && cards[i].Severity == "deny"
	}
	return cards
}

var (
	severityKinds = map[string]string{"deny": "bad", "warn": "warn", "info": "note"}
	severityOrder = map[string]int{"deny": 0, "warn": 1, "info": 2}
	severityWords = map[string]string{"deny": "refuses the change", "warn": "warning", "info": "remark"}
)

func order(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Word returns the severity for people.
func (f findingCard) Word() string {
	if f.standing && f.Severity == "deny" {
		return "failure"
	}
	return severityWords[f.Severity]
}

// Used returns the users of the image.
func (f findingCard) Used() []string { return consumerNames(f.Consumers) }

// Places returns what was found at each place.
func (f findingCard) Places() []string {
	return text.First(nonEmptyLines(f.Detail), maxCardLines, "place")
}

// Commands returns what to do: commands, or sentences.
func (f findingCard) Commands() string {
	return strings.Join(text.First(nonEmptyLines(f.Remedy), maxCardLines, ""), "\n")
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

// A findingList is a table of findings by rule, and those findings in full for which there is room.
type findingList struct {
	Groups []findingGroup
	Cards  template.HTML
	// Left is how many findings are left out.
	Left  int
	Whole string
	// Listed is set if the page has a list of images too.
	Listed bool
}

// A findingGroup counts the findings of a rule for one reason.
type findingGroup struct {
	Rule, Reason, Kind, Word string
	Images                   int
	Namespaces               string
	// First is the number of the first finding.
	First int
}

func (l findingList) title() string {
	if len(l.Groups) > 0 && l.Groups[0].Kind == "bad" {
		return "What will break, and for whom"
	}
	return "What to know"
}

func (r *reviewPage) findingList() (findingList, error) {
	l := findingList{Groups: groups(r.findings), Whole: r.Context.Whole, Listed: len(r.images) > 0}
	room := findingsRoom
	if len(r.images) > manyImages {
		room = briefRoom
	}
	cards, shown, err := rows("finding.html", r.findings, room)
	l.Cards, l.Left = cards, len(r.findings)-shown
	return l, err
}

// maxGroups bounds the table of findings: reasons may hold names.
const maxGroups = 60

func groups(cards []findingCard) []findingGroup {
	type key struct{ severity, rule, reason string }
	var all []findingGroup
	at, namespaces := map[key]int{}, map[key][]string{}
	for i := range cards {
		f := &cards[i]
		k := key{f.Severity, f.Rule, f.Reason}
		n, known := at[k]
		if !known {
			if len(all) == maxGroups {
				continue
			}
			n = len(all)
			at[k] = n
			all = append(all, findingGroup{Rule: f.Rule, Reason: f.Reason, Kind: f.Kind, Word: f.Word(), First: f.Number})
		}
		if f.Image != "" {
			all[n].Images++
		}
		for _, ns := range namespacesOf(f.Consumers) {
			if !slices.Contains(namespaces[k], ns) && len(namespaces[k]) < maxOptions {
				namespaces[k] = append(namespaces[k], ns)
			}
		}
		all[n].Namespaces = text.Names(namespaces[k], maxNamed)
	}
	return all
}

// A beforeList are images that fail today as well.
type beforeList struct {
	Rows []imageRow
	Left int
}

// maxBefore is how many rows what fails already, and what differs by tag, may have.
const maxBefore = 200

func (r *reviewPage) before() beforeList {
	var l beforeList
	for i := range r.images {
		if r.images[i].Result == "fails already" {
			l.Rows = append(l.Rows, r.images[i])
		}
	}
	l.Left = max(0, len(l.Rows)-maxBefore)
	l.Rows = l.Rows[:len(l.Rows)-l.Left]
	return l
}

// A driftRow is an image whose tag stands for several digests.
type driftRow struct {
	Image  string
	Places []driftPlace
}

// A driftPlace says what a tag stands for at a place; Other is set if that differs from the last one.
type driftPlace struct {
	Reference, Digest string
	Mirror, Other     bool
}

// A driftList are the first of them.
type driftList struct {
	Rows []driftRow
	Left int
}

func driftRows(rerouted []v1alpha1.Rerouted, findings []v1alpha1.Finding) driftList {
	drifted := map[string]bool{}
	for _, f := range findings {
		if f.Rule == "TagDrift" || f.Rule == "AnotherImage" {
			drifted[f.Image] = true
		}
	}
	var l driftList
	for i := range rerouted {
		if r := &rerouted[i]; drifted[r.Image] {
			delete(drifted, r.Image)
			if row := newDriftRow(r); len(row.Places) > 1 {
				l.Rows = append(l.Rows, row)
			}
		}
	}
	l.Left = max(0, len(l.Rows)-maxBefore)
	l.Rows = l.Rows[:len(l.Rows)-l.Left]
	return l
}

func newDriftRow(r *v1alpha1.Rerouted) driftRow {
	row := driftRow{Image: r.Image}
	for _, s := range slices.Concat(r.After.Sources, r.Before.Sources) {
		known := slices.ContainsFunc(row.Places, func(p driftPlace) bool { return p.Reference == s.Reference })
		if s.Fact != nil && s.Fact.Digest != "" && !known {
			row.Places = append(row.Places, driftPlace{Reference: s.Reference, Digest: s.Fact.Digest, Mirror: s.Mirror})
		}
	}
	for i := range row.Places {
		row.Places[i].Other = row.Places[i].Digest != row.Places[len(row.Places)-1].Digest
	}
	return row
}

// A registryRow counts what a registry answered about the images of the new routes.
type registryRow struct {
	Host                                string
	Places, Found, Missing, Unknown, No int
	// Answers are those that are not plain: what the registry said, with how often.
	Answers []string
	// Age is that of the oldest answer.
	Age    string
	oldest time.Time
}

// A registryList has the answers by registry, and the traffic with each.
type registryList struct {
	Rows    []registryRow
	Traffic []trafficRow
}

// A trafficRow is the traffic with a registry. Kind says whether it went smoothly.
type trafficRow struct {
	Traffic
	Kind, Usually string
}

func trafficRows(all []Traffic) []trafficRow {
	var rows []trafficRow
	for _, t := range all {
		t.Host = text.Cut(text.Line(t.Host), maxOption)
		row := trafficRow{Traffic: t, Kind: "good"}
		switch {
		case t.Answered == 0:
			row.Kind = "bad"
		case t.Throttled+t.Overloaded+t.Unanswered > 0:
			row.Kind = "warn"
		}
		if t.Usual > 0 {
			row.Usually = fmt.Sprintf("%s ms", text.Number(max(1, int(t.Usual.Milliseconds()))))
		}
		rows = append(rows, row)
	}
	slices.SortStableFunc(rows, func(a, b trafficRow) int {
		return cmp.Compare(b.Throttled+b.Overloaded+b.Unanswered, a.Throttled+a.Overloaded+a.Unanswered)
	})
	return rows[:min(len(rows), maxRegistries)]
}

// maxRegistries is how many registries have a row, maxAnswers how many answers of each are shown.
const maxRegistries, maxAnswers = 100, 3

func registryRows(rerouted []v1alpha1.Rerouted, now time.Time) []registryRow {
	byHost, answers := map[string]*registryRow{}, map[string]map[string]int{}
	for i := range rerouted {
		for k := range rerouted[i].After.Sources {
			s := &rerouted[i].After.Sources[k]
			host := registryOf(s.Reference)
			if byHost[host] == nil {
				byHost[host], answers[host] = &registryRow{Host: host}, map[string]int{}
			}
			byHost[host].add(s, answers[host])
		}
	}
	var all []registryRow
	for _, host := range sortedKeys(byHost) {
		row := byHost[host]
		if !row.oldest.IsZero() && !now.IsZero() {
			row.Age = timeText(max(0, now.Sub(row.oldest).Seconds()))
		}
		said := sortedKeys(answers[host])
		slices.SortStableFunc(said, func(a, b string) int { return cmp.Compare(answers[host][b], answers[host][a]) })
		for _, s := range said[:min(len(said), maxAnswers)] {
			row.Answers = append(row.Answers, fmt.Sprintf("%s: %s", text.Count(answers[host][s], "time"), s))
		}
		all = append(all, *row)
	}
	slices.SortStableFunc(all, func(a, b registryRow) int {
		return cmp.Or(cmp.Compare(b.Missing+b.Unknown, a.Missing+a.Unknown), cmp.Compare(b.Places, a.Places))
	})
	return all[:min(len(all), maxRegistries)]
}

func (r *registryRow) add(s *v1alpha1.Source, answers map[string]int) {
	r.Places++
	if f := s.Fact; f != nil && f.Time != nil && (r.oldest.IsZero() || f.Time.Before(r.oldest)) {
		r.oldest = *f.Time
	}
	switch stateOf(s) {
	case stateFound:
		r.Found++
	case stateMissing:
		r.Missing++
	case stateUnknown:
		r.Unknown++
	default:
		r.No++
	}
	if f := s.Fact; f != nil && f.Presence != "present" && f.Detail != "" {
		if said := text.Cut(text.ShortDigests(f.Detail), maxReason); len(answers) < maxOptions || answers[said] > 0 {
			answers[said]++
		}
	}
}
