package page

import (
	"fmt"
	"io"
	"reflect"

	"github.com/mirrorset-guard/mirrorset-guard/api/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
)

// maxExplained is how many images an explanation shows, maxTitle how long a heading is.
const maxExplained, maxTitle = 300, 120

// WriteExplanation writes an explanation as a page.
func WriteExplanation(w io.Writer, doc v1alpha1.Explanation, c Context) error {
	doc = cleaned(doc)
	l := layout{Title: "Where images come from", Badge: "Explanation", Kind: "note", Context: c}
	var parts []part
	differ, asked := 0, false
	for i := range doc.Images {
		e := newExplained(&doc.Images[i])
		differ += order(e.Differs)
		asked = asked || e.Asked
		if i < maxExplained {
			parts = append(parts, part{section: section{ID: fmt.Sprintf("image-%d", i+1), Title: e.Title(), Note: e.Note()}, template: "explained.html", data: e})
		}
	}
	if more := len(doc.Images) - maxExplained; more > 0 {
		parts = append(parts, part{section: section{ID: "more", Title: "More images"}, template: "more.html", data: fmt.Sprintf("%s are left out here.", text.Count(more, "image"))})
	}
	if traffic := trafficRows(c.Traffic); len(traffic) > 0 {
		parts = append(parts, part{section: section{ID: "registries", Title: "Registries"}, template: "traffic.html", data: traffic})
	}
	l.Sentence = fmt.Sprintf("Where nodes pull %s from, in which order.", text.Count(len(doc.Images), "image"))
	if differ > 0 {
		l.Sentence = fmt.Sprintf("The change alters the routes of %s of %s.", text.Number(differ), text.Count(len(doc.Images), "image"))
	}
	l.Asked = asked
	l.Basis = []basis{{"Registries", map[bool]string{true: "were asked", false: "were not asked: --probe asks them"}[asked]}}
	var err error
	if l.Sections, err = sections(parts...); err != nil {
		return err
	}
	return l.write(w)
}

// An explainedView is an image with its routes.
type explainedView struct {
	Image   string
	Routes  []routeView
	Differs bool
	Asked   bool
	// Known is set if it is known who uses the image: Used are the first of Users, and More are left out.
	Known       bool
	Used        []userRow
	Users, More int
	Notes       []string
}

// A userRow is something that uses an image.
type userRow struct {
	v1alpha1.Consumer
	Mark string
}

// maxUsers is how many users of an image an explanation names.
const maxUsers = 200

func (v *explainedView) use(consumers []v1alpha1.Consumer) {
	v.Known, v.Users = consumers != nil, len(consumers)
	for _, c := range consumers[:min(len(consumers), maxUsers)] {
		v.Used = append(v.Used, userRow{c, useKinds[c.Use]})
	}
	v.More = v.Users - len(v.Used)
}

// A routeView is a route with views of its places.
type routeView struct {
	v1alpha1.Route
	Title  string
	Places []placeView
}

// A placeView is a place of a route.
type placeView struct {
	v1alpha1.Source
	Kind, What string
	Signature  string
}

func newExplained(e *v1alpha1.Explained) explainedView {
	v := explainedView{Image: e.Image, Notes: e.Notes, Differs: !reflect.DeepEqual(e.Before, e.After)}
	if v.Differs {
		v.Routes = []routeView{newRoute("Before the change", e.Before), newRoute("After the change", e.After)}
	} else {
		v.Routes = []routeView{newRoute("Places, in the order in which nodes ask", e.After)}
	}
	v.use(e.Consumers)
	for _, s := range e.After.Sources {
		v.Asked = v.Asked || s.Fact != nil
	}
	return v
}

// Title returns the image as a heading has it.
func (v explainedView) Title() string { return middle(text.ShortDigest(v.Image), maxTitle) }

// Note says whether the routes differ.
func (v explainedView) Note() string {
	if v.Differs {
		return "differs"
	}
	return ""
}

func newRoute(title string, r v1alpha1.Route) routeView {
	v := routeView{Route: r, Title: title}
	for _, s := range r.Sources {
		v.Places = append(v.Places, newPlace(s))
	}
	return v
}

func newPlace(s v1alpha1.Source) placeView {
	role := "source"
	if s.Mirror {
		role = "mirror"
	}
	st := stateOf(&s)
	v := placeView{Source: s, Kind: stateKinds[st]}
	switch {
	case s.Refused:
		v.What = role + ", refused by the signature policy"
	case s.Blocked:
		v.What = role + ", blocked: nodes do not ask there"
	case s.Fact == nil:
		v.What = role
	default:
		v.What = role + ": " + s.Fact.Presence
		if s.Fact.Detail != "" {
			v.What += ": " + text.ShortDigests(s.Fact.Detail)
		}
	}
	if s.Insecure {
		v.What += "; certificates are not verified"
	}
	v.Signature = signatureText(&s)
	return v
}
