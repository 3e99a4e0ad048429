package main

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"

	"github.com/spf13/pflag"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// A selection says which images of an inventory are wanted. The zero value wants
// them all.
type selection struct {
	namespace string
	registry  string
	unused    bool
}

func (s *selection) addFlags(flags *pflag.FlagSet) {
	flags.StringVarP(&s.namespace, "namespace", "n", "", "only images that something in this namespace uses")
	flags.StringVar(&s.registry, "registry", "", "only images of this registry or below this scope (quay.io, quay.io/team)")
	flags.BoolVar(&s.unused, "unused", false, "only images that no pod runs now: named by templates, settings or history alone")
}

// selectionFrom reads a selection from the query of a URL, whose parameters are
// called as the flags are.
func selectionFrom(query url.Values) (selection, error) {
	var s selection
	for key, values := range query {
		value := values[len(values)-1]
		var err error
		switch key {
		case "namespace":
			s.namespace = value
		case "registry":
			s.registry = value
		case "unused":
			if s.unused, err = strconv.ParseBool(value); err != nil {
				return s, fmt.Errorf("unused=%q: want true or false", value)
			}
		default:
			return s, fmt.Errorf("%q: there is no such parameter; choose among namespace, registry and unused", key)
		}
	}
	return s, nil
}

// of returns those of images that s wants.
func (s selection) of(images []policy.Image) []policy.Image {
	if s == (selection{}) {
		return images
	}
	var wanted []policy.Image
	for _, img := range images {
		if s.wants(img) {
			wanted = append(wanted, img)
		}
	}
	return wanted
}

func (s selection) wants(img policy.Image) bool {
	if s.unused && img.Use() == policy.Running {
		return false
	}
	if s.namespace != "" && !slices.ContainsFunc(img.Consumers, func(c policy.Consumer) bool { return c.Namespace == s.namespace }) {
		return false
	}
	return s.registry == "" || mirrors.IsBelow(img.Ref, s.registry)
}
