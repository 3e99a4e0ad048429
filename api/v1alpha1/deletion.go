package v1alpha1

// A Deletion is a list of images to delete at registries, with the effects on the nodes of a cluster
// (kind Deletion).
type Deletion struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// List is where the list was read.
	List string `json:"list"`
	// Allowed is false exactly when a finding denies: the exit code is 1 then.
	Allowed bool `json:"allowed"`
	// Items is the number of items; of these, Elsewhere are at repositories from which no node pulls.
	Items     int `json:"items"`
	Elsewhere int `json:"elsewhere"`
	// Needed are the places from which nodes pull, and that lose something.
	Needed []NeededPlace `json:"needed"`
	// Findings are what breaks, by the rules for changes, the most severe first, without existing
	// faults.
	Findings []Finding `json:"findings"`
	Notes    []string  `json:"notes"`
	// Seconds is how long it took.
	Seconds float64 `json:"seconds"`
}

// A NeededPlace is one from which nodes pull an image, and that loses something.
type NeededPlace struct {
	// Item is the number of the item of the list, from 1, and Deleted its reference.
	Item    int    `json:"item"`
	Deleted string `json:"deleted"`
	// Loses is the image, its part for a platform, or its signature; and how it is lost, if not by that
	// very name.
	Loses string `json:"loses"`
	// Reference is what nodes ask for. It is the place with this number on the route, from 1.
	Reference string `json:"reference"`
	Place     int    `json:"place"`
	// Entry is the scope of registries.conf that leads there, "" where the image itself names the place.
	Entry string `json:"entry,omitempty"`
	Image string `json:"image"`
	// Use is the most important one: "running", "referenced", "next release" or "history".
	Use string `json:"use"`
	// Puller is who pulls it for the consumers, if not nodes: "builds", "imports" or "pull-through". These have routes of
	// their own.
	Puller    string     `json:"puller,omitempty"`
	Consumers []Consumer `json:"users"`
	// Broken is set if a finding denies the deletion for this image.
	Broken bool `json:"broken"`
}

// A KeepList is the list of references that a deletion below a scope has to spare for nodes of a cluster (kind KeepList).
type KeepList struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Scope is a registry, or a namespace or repository of one.
	Scope string `json:"scope"`
	// Items are sorted by reference. An index is to be kept with its parts.
	Items []KeptReference `json:"items"`
	// Unknown are what may be missing from Items.
	Unknown []string `json:"unknown"`
	Notes   []string `json:"notes"`
}

// A KeptReference is a tag or a digest that nodes may ask for, or a tag that sync gives what it copies by digest
// (sha256-HEX.image), whether or not it did.
type KeptReference struct {
	Reference string `json:"reference"`
	// Signature is set for a tag under which nodes look for signatures.
	Signature bool `json:"signature,omitempty"`
	// Use is the most important one: "running", "referenced", "next release" or "history".
	Use    string           `json:"use"`
	Images []InventoryImage `json:"images"`
}
