package review

import (
	"slices"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/internal/answer"
	"github.com/mirrorset-guard/mirrorset-guard/policy/forecast"
	"github.com/mirrorset-guard/mirrorset-guard/policy/words"
	"github.com/mirrorset-guard/mirrorset-guard/review/page"
)

// AskedFromHere is what an answer rests on for which registries were asked by a command.
const AskedFromHere = "Registries were asked from this machine; nodes may have other proxies, CAs and name servers."

// Answer returns r for people, every finding in full, in a page with the steps of the simulated rollout.
func (r Record) Answer() *answer.Answer {
	a := r.answer()
	a.Add(answer.Drawn{Blocks: r.Simulation})
	return a
}

// AnswerWithSteps returns r for people with the steps of the simulated rollout.
func (r Record) AnswerWithSteps() *answer.Answer {
	a := r.answer()
	a.Add(r.Simulation()...)
	return a
}

func (r Record) answer() *answer.Answer {
	a := words.Answer(r.Verdict, r.Subject)
	a.Notes, a.Cases, a.Took = r.Notes, r.cases, r.Took
	if unused := r.Plan.UnusedNote(); unused != "" {
		a.Notes = append(slices.Clone(r.Notes), unused)
	}
	a.Add(answer.Drawn{Blocks: func() []answer.Block { return page.Review(r.Document()) }}, aboutRollout)
	if r.Forecast != nil {
		forecast := answer.Paragraph{answer.Labelled(answer.Strong, "Forecast:", "it "+r.Forecast.String()+".")}
		if unknown := r.Forecast.Unknown; len(unknown) > 0 {
			forecast = append(forecast, answer.Say("It leaves out what could not be read: "+strings.Join(unknown, ", ")+"."))
		}
		a.Add(forecast)
	}
	r.Judged().addBasis(a)
	a.Add(aboutRollout, answer.Drawn{Blocks: func() []answer.Block { return page.Forecast(forecastDocument(r.Forecast)) }})
	return a
}

var aboutRollout = answer.Section{ID: "rollout", Title: "The rollout"}

// cases yields a case for the configuration as a whole, for the rollout if there is a forecast of it, and for each rerouted
// image. What the mode admits does not fail.
func (r Record) cases(yield func(answer.Case) bool) {
	found := map[string]answer.Findings{}
	var ofRollout answer.Findings
	waived := words.Waived(r.Verdict)
	for _, f := range r.Verdict.Findings {
		told := words.OfFinding(f)
		if waived && told.Tone == answer.Bad {
			told.Tone = answer.Caution
		}
		if forecast.IsRule(f.Rule) {
			ofRollout = append(ofRollout, told)
			continue
		}
		found[f.Image.Ref] = append(found[f.Image.Ref], told)
	}
	if !yield(answer.CaseOf("configuration", "the merged configuration", found[""])) {
		return
	}
	if r.Forecast != nil {
		c := answer.CaseOf("rollout", "the rollout", ofRollout)
		c.Lines = []string{"Forecast: it " + r.Forecast.String() + "."}
		if !yield(c) {
			return
		}
	}
	_, assumed := r.Judged().assumed()
	for i, reroute := range r.Plan.Reroutes {
		ref := reroute.Image.Ref
		if i > 0 && ref == r.Plan.Reroutes[i-1].Image.Ref {
			continue // the same image on the nodes of other pools
		}
		c := answer.CaseOf("image", ref, found[ref])
		if why := assumed[ref]; why != "" {
			c.Lines = []string{"Assumed: " + why}
		}
		if !yield(c) {
			return
		}
	}
}
