// Package scenarios holds the stories to which every way of asking the guard must
// give the same answer: testdata/*.txtar, each a cluster, a change and the outcome,
// written so that an operator can read it.
//
// The sections of a story:
//
//	-- cluster/*.yaml --  mirror objects in force
//	-- applied --         the registries.conf that nodes have, if it differs from what the
//	                      objects in force say
//	-- files/NAME/ROLE -- a drop-in of registries.conf that MachineConfig NAME puts on nodes;
//	                      registries.d/NAME/ROLE, one of registries.d
//	-- cas/NAME --        the hosts, one per line, for which ConfigMap NAME of openshift-config
//	                      holds the CA that private-ca needs
//	-- payload --         the release image of the cluster, which ClusterVersion names
//	-- images --          lines: REFERENCE [KIND NAMESPACE/NAME (CONTAINER) [runs {name}] [with its own pull secret] [as history]];
//	                      a reference in quotes is written as in Go
//	-- workloads.yaml --  the objects that name these; by default they are made from the lines
//	-- guard.yaml --      the GuardConfiguration; by default there is none
//	-- as --              who makes the change: USER [GROUP ...]
//	-- objects*.yaml --   further objects of the cluster, whose images are found in them
//	-- registries --      lines: HOST or REFERENCE, then present, absent, denied,
//	                      mismatch, unavailable or unreachable; for an image for
//	                      amd64 and arm64: index, or sparse, which lacks the part for
//	                      arm64; head-fails, forgotten, exchanged, moved or
//	                      private-ca, see test/registries; or
//	                      index=PLATFORM,... for an index of these platforms: those after
//	                      a ! are not held, "any" has no platform, and an empty list
//	                      gives an empty index. A reference that is not named is absent.
//	                      REFERENCE signed KEY [AS]: it is there with a signature by a key of
//	                      test/signer, for each of its instances, that names the image AS;
//	                      REFERENCE signatures STATE: what nodes meet where they look for one
//	-- put*.yaml --       objects that the change applies, or
//	-- delete*.yaml --    objects that it deletes, or
//	-- finalize*.yaml --  objects under deletion whose last finalizer it removes
//	-- want --            "admitted" or "denied", the message, and the warnings; or
//	                      "invalid" and the fields for which an API server refuses
//	                      the change before it asks the guard
//
// {name} stands for the digest of an image of that name, {name:12} for its first
// twelve digits, {name-index} for that of an index, {name-amd64} for that of its part,
// {name.sig} for the tag of its signatures, {key:NAME} for the public half of a key, as an
// image policy has it. A tag holds the image "tag" or
// the index "tag-index". There are nodes of both architectures.
package scenarios

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/tools/txtar"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/config"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/objects"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/snapshot"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/settings"
	"github.com/mirrorset-guard/mirrorset-guard/review/changefile"
	"github.com/mirrorset-guard/mirrorset-guard/test/registries"
	"github.com/mirrorset-guard/mirrorset-guard/test/signer"
)

// The states of an image for two architectures, whole and in part.
const (
	Index  registries.Behaviour = "index"
	Sparse registries.Behaviour = "sparse"
)

// indexOf begins the states of an index that says its platforms.
const indexOf = "index="

func isIndexOf(b registries.Behaviour) bool { return strings.HasPrefix(string(b), indexOf) }

// platformsOf returns what an index of state b lists, and which of that is held.
func platformsOf(b registries.Behaviour) (lists []string, held map[string]bool) {
	held = map[string]bool{}
	for _, entry := range strings.FieldsFunc(strings.TrimPrefix(string(b), indexOf), func(r rune) bool { return r == ',' }) {
		platform := strings.TrimPrefix(entry, "!")
		lists, held[platform] = append(lists, platform), platform == entry
	}
	return lists, held
}

// A Scenario is one story.
type Scenario struct {
	Name string
	// Before are the mirror objects in force, as YAML.
	Before []string
	// Payload is the release image, "" if there is no ClusterVersion.
	Payload string
	// Applied is the registries.conf that nodes have, "" if it is not known.
	Applied string
	// CAs are the hosts for which ConfigMaps of openshift-config hold CAs, by the
	// ConfigMaps' names.
	CAs map[string][]string
	// Files are those that MachineConfigs put on nodes.
	Files []mirrors.File
	// Images are what the cluster depends on.
	Images []policy.Image
	// Given name Images, as YAML; nil for objects made from their consumers.
	Given []string
	// Objects are further objects of the cluster, as YAML. Their images are among Images.
	Objects []string
	// States say what registries do, by host or reference.
	States map[string]registries.Behaviour
	// Signed are the signatures of images.
	Signed []Signed
	// Change are the objects that are applied, or deleted, as YAML.
	Change []string
	Delete bool
	// Finalize is set with Delete if only a finalizer still holds the objects.
	Finalize bool
	// Guard is the configuration of the guard as YAML, "" for none, and Settings what it says.
	Guard    string
	Settings settings.Settings
	// As is who makes the change.
	As settings.Requester
	// Want is the answer, in the form of Answer.String.
	Want string

	written []written // the lines of section "images"
}

// A Signed is an image at a place with what nodes find where they look for its signatures.
type Signed struct {
	Ref string
	// State is what they meet; registries.Honest for a signature by Key, that names the image As.
	State registries.Behaviour
	Key   signer.Key
	As    string
}

// A written image is one for which a workload is made up.
type written struct {
	ref  string
	user policy.Consumer
}

// An Answer is the answer at one door.
type Answer struct {
	Allowed  bool
	Message  string
	Warnings []string
}

// String writes an answer as the section "want" has it.
func (a Answer) String() string {
	var b strings.Builder
	if a.Allowed {
		b.WriteString("admitted\n")
	} else {
		b.WriteString("denied\n" + strings.TrimSpace(a.Message) + "\n")
	}
	for _, w := range a.Warnings {
		b.WriteString("Warning: " + w + "\n")
	}
	return b.String()
}

// Load reads every story below folder, sorted by name.
func Load(folder string) ([]Scenario, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.txtar"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no stories in %s", folder)
	}
	var all []Scenario
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			return nil, err
		}
		s, err := parse(archive)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		s.Name = strings.TrimSuffix(filepath.Base(file), ".txtar")
		all = append(all, s)
	}
	return all, nil
}

func parse(archive *txtar.Archive) (Scenario, error) {
	s := Scenario{States: map[string]registries.Behaviour{}, CAs: map[string][]string{}}
	for _, f := range archive.Files {
		text, err := fill(string(f.Data))
		if err != nil {
			return s, err
		}
		switch {
		case strings.HasPrefix(f.Name, "cluster/"):
			s.Before = append(s.Before, text)
		case strings.HasPrefix(f.Name, "put"):
			s.Change = append(s.Change, text)
		case strings.HasPrefix(f.Name, "delete"):
			s.Change, s.Delete = append(s.Change, text), true
		case f.Name == "payload":
			s.readPayload(strings.TrimSpace(text))
		case strings.HasPrefix(f.Name, "finalize"):
			s.Change, s.Delete, s.Finalize = append(s.Change, text), true, true
		case strings.HasPrefix(f.Name, "cas/"):
			s.CAs[strings.TrimPrefix(f.Name, "cas/")] = strings.Fields(text)
		case strings.HasPrefix(f.Name, "files/"), strings.HasPrefix(f.Name, "registries.d/"):
			err = s.addFile(f.Name, text)
		case f.Name == "applied":
			s.Applied = text
		case f.Name == "guard.yaml":
			err = s.readGuard(text)
		case f.Name == "as":
			err = s.readAs(text)
		case f.Name == "workloads.yaml":
			s.Given = strings.Split(text, "\n---\n")
		case strings.HasPrefix(f.Name, "objects"):
			s.Objects = append(s.Objects, text)
		case f.Name == "images":
			err = s.readImages(text)
		case f.Name == "registries":
			err = s.readStates(text)
		case f.Name == "want":
			s.Want = text
		default:
			err = fmt.Errorf("unknown section %q", f.Name)
		}
		if err != nil {
			return s, err
		}
	}
	if err := s.readObjects(); err != nil {
		return s, err
	}
	s.sortImages()
	if len(s.Change) == 0 || s.Want == "" && len(archive.Files) == 0 {
		return s, errors.New("a story needs a change and what comes of it")
	}
	return s, nil
}

func (s *Scenario) readGuard(text string) error {
	c, err := config.Parse([]byte(text))
	if err != nil {
		return fmt.Errorf("guard.yaml: %w", err)
	}
	s.Guard, s.Settings = text, c.Settings()
	return nil
}

func (s *Scenario) readAs(text string) error {
	names := strings.Fields(text)
	if len(names) == 0 {
		return errors.New("section as: want USER [GROUP ...]")
	}
	s.As = settings.Requester{User: names[0], Groups: names[1:]}
	return nil
}

var (
	placeholder = regexp.MustCompile(`\{([a-z]+(?:-index|-amd64|-arm64)?)(:12|\.sig)?\}`)
	keyHolder   = regexp.MustCompile(`\{key:([a-z]+)\}`)
)

// fill replaces {name} by the digest of the image of that name, and {key:NAME} by a key.
func fill(text string) (string, error) {
	text = keyHolder.ReplaceAllStringFunc(text, func(match string) string {
		return base64.StdEncoding.EncodeToString(signer.Key(keyHolder.FindStringSubmatch(match)[1]).PEM())
	})
	var failed error
	filled := placeholder.ReplaceAllStringFunc(text, func(match string) string {
		parts := placeholder.FindStringSubmatch(match)
		digest, err := digestOf(parts[1])
		if err != nil {
			failed = err
			return match
		}
		if parts[2] == ".sig" {
			return signer.Tag(digest)
		}
		if parts[2] != "" {
			return "sha256:" + strings.TrimPrefix(digest, "sha256:")[:12]
		}
		return digest
	})
	return filled, failed
}

// Unfill is the inverse of the placeholders, for the names that text may hold.
func Unfill(text string, names []string) string {
	for _, name := range names {
		digest, err := digestOf(name)
		if err != nil {
			continue
		}
		text = strings.ReplaceAll(text, digest, "{"+name+"}")
		text = strings.ReplaceAll(text, signer.Tag(digest), "{"+name+".sig}")
		text = strings.ReplaceAll(text, digest[:len("sha256:")+12], "{"+name+":12}")
	}
	return text
}

// computedDigests are those of digestOf, by names.
var computedDigests sync.Map

// digestOf returns the digest of an image, or of an index if name ends in -index.
func digestOf(name string) (string, error) {
	if digest, ok := computedDigests.Load(name); ok {
		return digest.(string), nil
	}
	digest, err := computeDigest(name)
	if err == nil {
		computedDigests.Store(name, digest)
	}
	return digest, err
}

func computeDigest(name string) (string, error) {
	if base, ok := strings.CutSuffix(name, "-index"); ok {
		index, err := registries.Index(base)
		if err != nil {
			return "", err
		}
		digest, err := index.Digest()
		return digest.String(), err
	}
	arch := "amd64"
	for _, part := range []string{"amd64", "arm64"} {
		if base, ok := strings.CutSuffix(name, "-"+part); ok {
			name, arch = base+" "+part, part // as registries.IndexOf calls it
		}
	}
	img, err := registries.ImageFor(name, arch)
	if err != nil {
		return "", err
	}
	digest, err := img.Digest()
	return digest.String(), err
}

// userPattern is "Deployment shop/cart (app)".
var userPattern = regexp.MustCompile(`^(\S+) ([^/\s]+)/(\S+) \(([^)]+)\)(?: runs (\S+))?( with its own pull secret)?( as history)?$`)

func (s *Scenario) readImages(text string) error {
	for line := range strings.Lines(text) {
		ref, rest, err := cutReference(strings.TrimSpace(line))
		if err != nil {
			return fmt.Errorf("image line %q: %w", line, err)
		}
		if ref == "" {
			continue
		}
		user := policy.Consumer{Kind: "Deployment", Namespace: "default", Name: fmt.Sprintf("app-%d", len(s.Images)), Container: "app"}
		if rest = strings.TrimSpace(rest); rest != "" {
			m := userPattern.FindStringSubmatch(rest)
			if m == nil {
				return fmt.Errorf("image line %q: want REFERENCE KIND NAMESPACE/NAME (CONTAINER)", line)
			}
			user = policy.Consumer{Kind: m[1], Namespace: m[2], Name: m[3], Container: m[4], Digest: m[5], OwnPullSecret: m[6] != ""}
		}
		if user.Kind == "Pod" {
			user.Use = policy.Running
		}
		if strings.HasSuffix(rest, " as history") {
			user.Use = policy.History
		}
		s.written = append(s.written, written{ref, user})
		s.addImage(ref, user)
	}
	return nil
}

// cutReference cuts the first word, or a quoted string, off a line.
func cutReference(line string) (ref, rest string, err error) {
	quoted, err := strconv.QuotedPrefix(line)
	if err != nil {
		ref, rest, _ = strings.Cut(line, " ")
		return ref, rest, nil
	}
	ref, err = strconv.Unquote(quoted)
	return ref, line[len(quoted):], err
}

// readPayload adds the release image, on which the cluster depends too.
func (s *Scenario) readPayload(ref string) {
	s.Payload = ref
	s.addImage(ref, policy.Consumer{Kind: "ClusterVersion", Name: "version", Container: "status.desired.image"})
	s.sortImages()
}

// Version returns the ClusterVersion, and its status by itself, as JSON.
func (s *Scenario) Version() (object, status string) {
	status = fmt.Sprintf(`"status": {"desired": {"version": "4.20.0", "image": %q}, "observedGeneration": 1, "versionHash": "", "availableUpdates": []}`, s.Payload)
	const head = `{"apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion", "metadata": {"name": "version"}, "spec": {"clusterID": "0"}, `
	return head + status + "}", "{" + status + "}"
}

func (s *Scenario) sortImages() {
	slices.SortFunc(s.Images, func(a, b policy.Image) int { return strings.Compare(a.Ref, b.Ref) })
}

// readObjects finds the images in the objects, as those of a dump, with the service account
// that every namespace has.
func (s *Scenario) readObjects() error {
	if len(s.Objects) == 0 {
		return nil
	}
	naming := slices.Concat(s.Objects, s.pinnedSets())
	images, err := imagesIn(naming)
	if err != nil {
		return err
	}
	if images, err = imagesIn(slices.Concat(accounts(namespacesOf(images)), naming)); err != nil {
		return err
	}
	for _, img := range images {
		for _, u := range img.Consumers {
			s.addImage(img.Ref, u)
		}
	}
	return nil
}

// pinnedSets returns those of the mirror objects in force that name images.
func (s *Scenario) pinnedSets() []string {
	return slices.DeleteFunc(slices.Clone(s.Before), func(text string) bool { return !strings.Contains(text, "kind: "+mirrors.PinnedSetGVK.Kind) })
}

func imagesIn(objects []string) ([]policy.Image, error) {
	dump, err := snapshot.ReadFrom(strings.NewReader(strings.Join(objects, "\n---\n")), "objects")
	if err != nil {
		return nil, err
	}
	if problems := dump.Problems(); len(problems) > 0 {
		return nil, problems[0]
	}
	images, err := dump.Images(context.Background())
	return images.ByReference(), err
}

func (s *Scenario) addImage(ref string, user policy.Consumer) {
	for i := range s.Images {
		if s.Images[i].Ref == ref {
			s.Images[i].Consumers = append(s.Images[i].Consumers, user)
			return
		}
	}
	s.Images = append(s.Images, policy.Image{Ref: ref, Consumers: []policy.Consumer{user}})
}

func (s *Scenario) readStates(text string) error {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		if len(fields) > 2 && fields[1] == "signed" || len(fields) == 3 && fields[1] == "signatures" {
			s.readSigned(fields)
			continue
		}
		if len(fields) != 2 {
			return fmt.Errorf("registries line %q: want HOST or REFERENCE and a state", line)
		}
		b := registries.Behaviour(fields[1])
		if !slices.Contains([]registries.Behaviour{registries.Honest, registries.Absent, registries.Denied, registries.Mismatch, registries.Unavailable, registries.Down, registries.Hollow, registries.HeadFails, registries.Forgotten, registries.Exchanged, registries.Moved, registries.Private, Index, Sparse}, b) && !isIndexOf(b) {
			return fmt.Errorf("registries line %q: unknown state", line)
		}
		s.States[fields[0]] = b
	}
	return nil
}

// readSigned reads a line about signatures.
func (s *Scenario) readSigned(fields []string) {
	signed := Signed{Ref: fields[0], State: registries.Behaviour(fields[2])}
	if fields[1] == "signed" {
		signed.State, signed.Key, signed.As = registries.Honest, signer.Key(fields[2]), fields[0]
		if len(fields) > 3 {
			signed.As = fields[3]
		}
	}
	s.Signed = append(s.Signed, signed)
}

// instances returns the digests of the manifests for which nodes look for signatures.
func (s *Scenario) instances(ref string) []string {
	names := []string{imageName(ref)}
	if state := s.States[ref]; state == Index || state == Sparse {
		base := strings.TrimSuffix(indexName(ref), "-index")
		names = []string{base + "-amd64", base + "-arm64"}
	}
	var digests []string
	for _, name := range names {
		digest, err := digestOf(name)
		if err != nil {
			panic(err) // the generator of images takes any name
		}
		digests = append(digests, digest)
	}
	return digests
}

// Edit returns the change as an edit.
func (s *Scenario) Edit() (mirrors.Edit, error) {
	r := changefile.Reader{Delete: s.Delete}
	for i, text := range s.Change {
		r.Read(fmt.Sprintf("put%d.yaml", i), strings.NewReader(text))
	}
	return r.Edit()
}

// Sendable reports whether the change is of objects that the webhook is asked about, and none that wrap them.
func (s *Scenario) Sendable() bool {
	return !slices.ContainsFunc(s.objects(), func(text string) bool {
		_, err := mirrors.Parse([]byte(text))
		return errors.Is(err, mirrors.ErrKind)
	})
}

// objects returns the mirror objects of the change, including those in a List.
func (s *Scenario) objects() []string {
	var all []string
	for _, text := range s.Change {
		var list struct {
			Kind  string            `json:"kind"`
			Items []json.RawMessage `json:"items"`
		}
		if err := yaml.Unmarshal([]byte(text), &list); err != nil || list.Kind != "List" {
			all = append(all, text)
			continue
		}
		for _, item := range list.Items {
			if _, err := mirrors.Parse(item); !errors.Is(err, mirrors.ErrKind) {
				all = append(all, string(item))
			}
		}
	}
	return all
}

// Invalid returns the fields for which the change is refused as invalid, and whether it
// is.
func (s *Scenario) Invalid() ([]string, bool) {
	fields, ok := strings.CutPrefix(s.Want, "invalid\n")
	return strings.Fields(fields), ok
}

// Set returns the mirror objects in force.
func (s *Scenario) Set() (mirrors.Set, error) {
	var set mirrors.Set
	for _, text := range s.Before {
		o, err := mirrors.Parse([]byte(text))
		if err != nil {
			return set, err
		}
		set = mirrors.Put(o).Apply(set)
	}
	set.Payload = s.Payload
	if s.Applied != "" {
		set.Applied = &mirrors.Applied{Files: map[string][]byte{mirrors.RegistriesConfPath: []byte(s.Applied)}}
	}
	set.Files = s.Files
	return set, nil
}

// addFile adds the file of a section "files/NAME/ROLE".
func (s *Scenario) addFile(section, text string) error {
	parts := strings.Split(section, "/")
	if len(parts) != 3 {
		return fmt.Errorf("section %q: want files/NAME/ROLE", section)
	}
	path := "/etc/containers/registries.conf.d/" + parts[1] + ".conf"
	if parts[0] == "registries.d" {
		path = "/etc/containers/registries.d/" + parts[1] + ".yaml"
	}
	s.Files = append(s.Files, mirrors.File{MachineConfig: parts[1], Role: parts[2], Path: path, Contents: []byte(text)})
	return nil
}

// Configuration returns the objects that say where nodes pull from, as YAML documents.
func (s *Scenario) Configuration() ([]string, error) {
	docs := slices.Clone(s.Before)
	if s.Applied != "" {
		doc, err := machineConfig(objects.EncodeApplied(mirrors.Applied{Files: map[string][]byte{mirrors.RegistriesConfPath: []byte(s.Applied)}}))
		if err != nil {
			return nil, err
		}
		docs = append(docs, doc)
	}
	for _, f := range s.Files {
		doc, err := machineConfig(objects.EncodeFiles([]mirrors.File{f}))
		if err != nil {
			return nil, err
		}
		docs = append(docs, doc)
	}
	return docs, nil
}

func machineConfig(o any) (string, error) {
	data, err := yaml.Marshal(o)
	return "apiVersion: machineconfiguration.openshift.io/v1\nkind: MachineConfig\n" + string(data), err
}

// Workloads returns the objects that use the images, as YAML documents.
func (s *Scenario) Workloads() ([]string, error) {
	if s.Given != nil {
		return slices.Concat(s.Given, s.Objects), nil
	}
	var docs []string
	for _, w := range s.written {
		o, err := workload(w.ref, w.user)
		if err != nil {
			return nil, err
		}
		data, err := yaml.Marshal(o)
		if err != nil {
			return nil, err
		}
		docs = append(docs, string(data))
	}
	if s.Payload != "" {
		object, _ := s.Version()
		docs = append(docs, object)
	}
	return append(docs, s.Objects...), nil
}

// Accounts returns the service account that every namespace has, as YAML documents, for a
// dump to say that it has no pull secrets. A cluster says so by having none.
func (s *Scenario) Accounts() []string { return accounts(s.Namespaces()) }

func accounts(namespaces []string) []string {
	var docs []string
	for _, ns := range namespaces {
		docs = append(docs, "apiVersion: v1\nkind: ServiceAccount\nmetadata: {namespace: "+ns+", name: default, annotations: {openshift.io/internal-registry-pull-secret-ref: default-dockercfg-x7k2p}}\nimagePullSecrets: [{name: default-dockercfg-x7k2p}]\n")
	}
	return docs
}

// Namespaces returns the namespaces of the consumers and of the mirror objects, sorted.
func (s *Scenario) Namespaces() []string {
	all := namespacesOf(s.Images)
	for _, text := range slices.Concat(s.Before, s.objects()) {
		var object metav1.PartialObjectMetadata
		if yaml.Unmarshal([]byte(text), &object) == nil && object.Namespace != "" {
			all = append(all, object.Namespace)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func namespacesOf(images []policy.Image) []string {
	var all []string
	for _, img := range images {
		for _, u := range img.Consumers {
			if u.Namespace != "" {
				all = append(all, u.Namespace)
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func workload(ref string, u policy.Consumer) (runtime.Object, error) {
	meta := metav1.ObjectMeta{Namespace: u.Namespace, Name: u.Name}
	labels := map[string]string{"app": u.Name}
	pod := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: u.Container, Image: ref}}},
	}
	if u.OwnPullSecret {
		pod.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "own"}}
	}
	selector := &metav1.LabelSelector{MatchLabels: labels}
	kind := func(group string) metav1.TypeMeta { return metav1.TypeMeta{APIVersion: group, Kind: u.Kind} }
	switch u.Kind {
	case "Deployment":
		return &appsv1.Deployment{TypeMeta: kind("apps/v1"), ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Selector: selector, Template: pod}}, nil
	case "StatefulSet":
		return &appsv1.StatefulSet{TypeMeta: kind("apps/v1"), ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Selector: selector, Template: pod}}, nil
	case "DaemonSet":
		return &appsv1.DaemonSet{TypeMeta: kind("apps/v1"), ObjectMeta: meta, Spec: appsv1.DaemonSetSpec{Selector: selector, Template: pod}}, nil
	case "CronJob":
		pod.Spec.RestartPolicy = corev1.RestartPolicyNever
		return &batchv1.CronJob{TypeMeta: kind("batch/v1"), ObjectMeta: meta, Spec: batchv1.CronJobSpec{
			Schedule: "0 4 * * *", JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: pod}},
		}}, nil
	case "Pod":
		p := &corev1.Pod{TypeMeta: kind("v1"), ObjectMeta: meta, Spec: pod.Spec}
		if u.Digest != "" {
			p.Status = podStatus(ref, u)
		}
		return p, nil
	default:
		return nil, fmt.Errorf("a story cannot have a %s", u.Kind)
	}
}

// podStatus is what the node would report of a running container.
func podStatus(ref string, u policy.Consumer) corev1.PodStatus {
	name, _, _ := strings.Cut(ref, "@")
	if i := strings.LastIndex(name, ":"); i > strings.LastIndex(name, "/") {
		name = name[:i]
	}
	return corev1.PodStatus{
		Phase:             corev1.PodRunning,
		ContainerStatuses: []corev1.ContainerStatus{{Name: u.Container, Image: ref, ImageID: name + "@" + u.Digest}},
	}
}

// Hosts returns every registry host that the story mentions or its routes lead to.
func (s *Scenario) Hosts() []string {
	hosts := map[string]bool{}
	for key := range s.States {
		host, _, _ := strings.Cut(key, "/")
		hosts[host] = true
	}
	for _, img := range s.Images {
		host, _, _ := strings.Cut(img.Ref, "/")
		if strings.ContainsAny(host, ".:") && host != img.Ref {
			hosts[host] = true
		} else { // a short name: those that MCO's base file has nodes search
			hosts["docker.io"], hosts["registry.access.redhat.com"] = true, true
		}
	}
	if set, err := s.Set(); err == nil {
		if edit, err := s.Edit(); err == nil {
			for _, e := range append(set.Entries(), edit.Apply(set).Entries()...) {
				for _, m := range e.Mirrors {
					host, _, _ := strings.Cut(m, "/")
					hosts[host] = true
				}
			}
		}
	}
	var sorted []string
	for h := range hosts {
		sorted = append(sorted, h)
	}
	slices.Sort(sorted)
	return sorted
}

// names are the images and indexes that stories mention.
var names = []string{"router", "dns", "cart", "web", "payload", "pause", "tag", "router-index", "cart-index", "tag-index", "router-amd64", "router-arm64", "cart-amd64", "cart-arm64", "tag-amd64", "tag-arm64"}

// repositoryOf strips the tag or digest from a reference.
func repositoryOf(ref string) string {
	repo, _, _ := strings.Cut(ref, "@")
	if i := strings.LastIndex(repo, ":"); i > strings.LastIndex(repo, "/") {
		repo = repo[:i]
	}
	return repo
}

func indexName(ref string) string {
	if name := imageName(ref); strings.HasSuffix(name, "-index") {
		return name
	}
	return "tag-index"
}

// imageName finds the name whose digest the story put into ref; a tag may hold any
// image.
func imageName(ref string) string {
	_, digest, ok := strings.Cut(ref, "@")
	if !ok {
		return "tag"
	}
	for _, name := range names {
		if d, err := digestOf(name); err == nil && d == digest {
			return name
		}
	}
	return "unknown"
}
