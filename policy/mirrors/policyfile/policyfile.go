// Package policyfile decides what nodes require of images before they run them: it makes policy.json, those of namespaces and
// registries.d as MCO does (New), reads them as nodes do (Policy), and says what differs between two. Which lists and image
// policies they are made of, and of what set of mirrors, is the business of package mirrors, which it does not know; it rests on
// package signing.
package policyfile

import (
	"encoding/json"
	"iter"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/policy/signing"
)

// A policyFile is a policy.json: what nodes require of images before they run them
// (containers/image, signature.Policy).
type policyFile struct {
	Default    []signing.Requirement                       `json:"default"`
	Transports map[string]map[string][]signing.Requirement `json:"transports"`
}

// PolicyJSONPath is the policy.json for all pods but those of namespaces that have one of their own.
const PolicyJSONPath = "/etc/containers/policy.json"

// BaseJSON is what nodes have there where MCO generates none, byte by byte
// (templates/worker/01-worker-container-runtime/_base/files in MCO; those of other roles are the same).
const BaseJSON = `{
    "default": [
        {
            "type": "insecureAcceptAnything"
        }
    ],
    "transports":
        {
            "docker-daemon":
                {
                    "": [{"type":"insecureAcceptAnything"}]
                }
        }
}`

// namespacePolicyPath returns the policy.json for pods of a namespace.
func namespacePolicyPath(namespace string) string { return namespacePolicyFolder + namespace + ".json" }

const namespacePolicyFolder = "/etc/crio/policies/"

// Namespace returns the namespace whose policy.json the file at path is.
func Namespace(file string) (string, bool) {
	name, ok := strings.CutPrefix(path.Clean(file), namespacePolicyFolder)
	namespace, isJSON := strings.CutSuffix(name, ".json")
	return namespace, ok && isJSON && namespace != "" && !strings.Contains(namespace, "/")
}

// IsPolicyFile reports whether nodes read the file at path for which images they may run, and
// for where to look for signatures.
func IsPolicyFile(file string) bool {
	_, ofNamespace := Namespace(file)
	return file == PolicyJSONPath || ofNamespace || isAttachmentsFile(file)
}

// Files are those that MCO makes of the registry lists and of image policies.
type Files struct {
	cluster policyFile
	// namespaces are for the pods of those with an ImagePolicy.
	namespaces map[string]policyFile
	// Attached are the scopes in AttachmentsPath.
	Attached map[string]bool
	// written is set if MCO writes them; else nodes have those of its templates.
	written bool

	makers  Makers
	refused string // why images are refused that no scope covers; "" if they are not
}

// Makers are the policies behind the requirements of a scope: of the cluster under "", of
// others by namespace.
type Makers map[string]map[string][]string

var (
	acceptAll = signing.Requirement{Type: signing.AcceptAnything}
	rejectAll = signing.Requirement{Type: signing.Reject}
)

// basePolicy is what MCO's template says.
func basePolicy() policyFile {
	return policyFile{
		Default:    []signing.Requirement{acceptAll},
		Transports: map[string]map[string][]signing.Requirement{"docker-daemon": {"": {acceptAll}}},
	}
}

// Sources are what MCO makes policy files of: the registry lists that it writes to policy.json, and what image policies
// require, and which of them, by namespace ("" for the cluster) and scope.
type Sources struct {
	Allowed, Blocked []string
	Wanted           map[string]map[string][]signing.Requirement
	Makers           Makers
	// Refused says why images are refused that no scope covers; "" if they are not.
	Refused string
}

// New does what MCO does with lists and policies (updatePolicyJSON, updateNamespacedPolicyJSONs). Written says that it
// writes them.
func New(from Sources, written bool) Files {
	p := Files{cluster: basePolicy(), namespaces: map[string]policyFile{}, makers: from.Makers, refused: from.Refused, written: written}
	scopes := map[string][]signing.Requirement{}
	for _, scope := range from.Allowed {
		p.cluster.Default = []signing.Requirement{rejectAll}
		if len(from.Wanted[""][scope]) == 0 { // else a policy decides there
			scopes[scope] = []signing.Requirement{acceptAll}
		}
	}
	for _, scope := range from.Blocked {
		p.cluster.Default = []signing.Requirement{acceptAll}
		scopes[scope] = []signing.Requirement{rejectAll}
	}
	for scope, requirements := range from.Wanted[""] {
		scopes[scope] = append(scopes[scope], requirements...)
	}
	p.cluster.setScopes(scopes)
	for namespace, ofNamespace := range from.Wanted {
		if namespace == "" {
			continue
		}
		own := policyFile{Default: p.cluster.Default, Transports: maps.Clone(p.cluster.Transports)}
		merged := maps.Clone(scopes)
		for scope, requirements := range ofNamespace {
			merged[scope] = slices.Concat(merged[scope], requirements)
		}
		own.setScopes(merged)
		p.namespaces[namespace] = own
	}
	return p
}

// setScopes enters scopes. Transport "atomic" knows at most three parts of a name.
func (p *policyFile) setScopes(scopes map[string][]signing.Requirement) {
	if len(scopes) == 0 { // MCO leaves the transports out
		return
	}
	atomic := map[string][]signing.Requirement{}
	for scope, wanted := range scopes {
		if strings.Count(scope, "/") < 3 {
			atomic[scope] = wanted
		}
	}
	p.Transports["docker"], p.Transports["atomic"] = scopes, atomic
}

// encode writes p as MCO does.
func (p policyFile) encode() []byte {
	data, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		panic(err) // it has nothing that JSON does not know
	}
	return data
}

// ByPath returns what MCO writes, by path.
func (p *Files) ByPath() map[string][]byte {
	files := map[string][]byte{}
	if !p.written {
		return files
	}
	files[PolicyJSONPath] = []byte(BaseJSON)
	if len(p.cluster.Transports["docker"]) > 0 {
		files[PolicyJSONPath] = p.cluster.encode()
	}
	for namespace, own := range p.namespaces {
		files[namespacePolicyPath(namespace)] = own.encode()
	}
	if len(p.Attached) > 0 {
		files[AttachmentsPath] = encodeAttachments(p.Attached)
	}
	return files
}

// Policy returns what nodes make of p, but for where they look for signatures.
func (p *Files) Policy() *Policy {
	t := NewPolicy()
	t.cluster = p.cluster.rules(p.makers[""], nil, p.refused)
	for namespace, own := range p.namespaces {
		t.namespaces[namespace] = new(own.rules(p.makers[""], p.makers[namespace], p.refused))
	}
	return t
}

// NotNamed is why images are refused by a file that others than MCO have written.
const NotNamed = "the policy.json that nodes have does not name its registry"

// NewPolicy returns one that requires nothing.
func NewPolicy() *Policy { return &Policy{namespaces: map[string]*scopeRules{}} }

// Lay makes p what nodes read from files, which MCO has generated, and from those of MachineConfigs, over, that lie beside and
// over them. What p has of the generated ones is kept, as it knows the objects behind them. A policy.json that no node can read
// ends every pull there, before and after any change of mirrors; it is left out.
func (p *Policy) Lay(files map[string][]byte, over iter.Seq2[string, []byte]) {
	known := !p.IsEmpty()
	attached := map[string][]byte{}
	lay := func(file string, contents []byte, generated bool) {
		if isAttachmentsFile(file) {
			attached[file] = contents
			return
		}
		if generated && known {
			return
		}
		policy, err := readPolicy(contents)
		if err != nil {
			return
		}
		rules := policy.rules(nil, nil, NotNamed)
		if namespace, ok := Namespace(file); ok {
			p.namespaces[namespace] = &rules
		} else if file == PolicyJSONPath {
			p.cluster = rules
		}
	}
	for file, contents := range files {
		lay(file, contents, true)
	}
	for file, contents := range over {
		if IsPolicyFile(file) {
			lay(file, contents, false)
		}
	}
	p.Attachments = newAttachments(attached)
}

// rules returns what nodes make of p, given the policies behind it. Refused says why images
// are refused that no scope covers, if they are.
func (p policyFile) rules(ofCluster, ofNamespace map[string][]string, refused string) scopeRules {
	var rules scopeRules
	docker := p.Transports["docker"]
	for scope, wanted := range docker {
		if scope == "" {
			continue
		}
		makers := slices.Concat(ofCluster[scope], ofNamespace[scope])
		rules.put(scope, newScopeRule(scope, wanted, makers, "blockedRegistries of Image cluster names "+scope))
	}
	rest, ok := docker[""]
	if !ok {
		rest = p.Default
	}
	rules.rest = newScopeRule("", rest, nil, refused)
	return rules
}

func newScopeRule(scope string, wanted []signing.Requirement, makers []string, refused string) Rule {
	if len(wanted) == 0 || slices.ContainsFunc(wanted, func(r signing.Requirement) bool { return r.Type == signing.Reject }) {
		return Rule{Refused: refused}
	}
	asking := slices.DeleteFunc(slices.Clone(wanted), func(r signing.Requirement) bool { return r.Type == signing.AcceptAnything })
	if len(asking) == 0 {
		return Rule{}
	}
	slices.Sort(makers)
	return Rule{Trust: &Trust{Scope: scope, Requirements: signing.NewRequirements(asking...), Policies: slices.Compact(makers)}}
}

// Check returns why nodes cannot read the file at path, if it is a policy.json.
func Check(file string, contents []byte) error {
	if _, ofNamespace := Namespace(file); len(contents) > 0 && (ofNamespace || file == PolicyJSONPath) {
		_, err := readPolicy(contents)
		return err
	}
	return nil
}

// readPolicy reads a policy.json. Nodes read it more strictly; but one that they cannot read
// ends every pull there, whatever the mirrors.
func readPolicy(data []byte) (policyFile, error) {
	p := policyFile{}
	if err := json.Unmarshal(data, &p); err != nil {
		return policyFile{}, err
	}
	return p, nil
}
