package mirrors

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/openshift/runtime-utils/pkg/registries"

	"github.com/mirrorset-guard/mirrorset-guard/policy/signing"
)

// A policyFile is a policy.json: what nodes require of images before they run them
// (containers/image, signature.Policy).
type policyFile struct {
	Default    []signing.Requirement                       `json:"default"`
	Transports map[string]map[string][]signing.Requirement `json:"transports"`
}

// namespacePolicyPath returns the policy.json for pods of a namespace.
func namespacePolicyPath(namespace string) string { return namespacePolicyFolder + namespace + ".json" }

const namespacePolicyFolder = "/etc/crio/policies/"

// policyNamespace returns the namespace whose policy.json the file at path is.
func policyNamespace(file string) (string, bool) {
	name, ok := strings.CutPrefix(path.Clean(file), namespacePolicyFolder)
	namespace, isJSON := strings.CutSuffix(name, ".json")
	return namespace, ok && isJSON && namespace != "" && !strings.Contains(namespace, "/")
}

// IsPolicyFile reports whether nodes read the file at path for which images they may run, and
// for where to look for signatures.
func IsPolicyFile(file string) bool {
	_, ofNamespace := policyNamespace(file)
	return file == PolicyJSONPath || ofNamespace || isAttachmentsFile(file)
}

// policyFiles are those that MCO makes of the registry lists and of image policies.
type policyFiles struct {
	cluster policyFile
	// namespaces are for the pods of those with an ImagePolicy.
	namespaces map[string]policyFile
	// attached are the scopes in AttachmentsPath.
	attached map[string]bool
	// written is set if MCO writes them; else nodes have those of its templates.
	written bool

	makers  scopeMakers
	refused string // why images are refused that no scope covers; "" if they are not
}

// scopeMakers are the policies behind the requirements of a scope: of the cluster under "", of
// others by namespace.
type scopeMakers map[string]map[string][]string

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

// newPolicyFiles does what MCO does with lists and policies (updatePolicyJSON,
// updateNamespacedPolicyJSONs, getValidScopePolicies). Conf is the generated registries.conf.
// The reasons say for what it would write nothing.
func newPolicyFiles(s Set, lists policyLists) (policyFiles, []Reason) {
	p := policyFiles{cluster: basePolicy(), namespaces: map[string]policyFile{}, makers: scopeMakers{}, written: len(lists.allowed)+len(lists.blocked)+len(s.Policies) > 0}
	wanted, reasons := s.requirements(p.makers)
	scopes := map[string][]signing.Requirement{}
	for _, scope := range lists.allowed {
		p.cluster.Default = []signing.Requirement{rejectAll}
		if len(wanted[""][scope]) == 0 { // else a policy decides there
			scopes[scope] = []signing.Requirement{acceptAll}
		}
	}
	for _, scope := range lists.blocked {
		p.cluster.Default = []signing.Requirement{acceptAll}
		scopes[scope] = []signing.Requirement{rejectAll}
	}
	for scope, requirements := range wanted[""] {
		scopes[scope] = append(scopes[scope], requirements...)
	}
	p.cluster.setScopes(scopes)
	delete(wanted, "")
	for namespace, ofNamespace := range wanted {
		own := policyFile{Default: p.cluster.Default, Transports: maps.Clone(p.cluster.Transports)}
		merged := maps.Clone(scopes)
		for scope, requirements := range ofNamespace {
			merged[scope] = slices.Concat(merged[scope], requirements)
		}
		own.setScopes(merged)
		p.namespaces[namespace] = own
	}
	p.refused = s.whyRefused(lists)
	return p, append(reasons, s.bothLists(lists)...)
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

// requirements returns what image policies require, by namespace, "" for the cluster, and scope. A scope inside one of the
// cluster's is skipped in namespaces.
func (s Set) requirements(makers scopeMakers) (wanted map[string]map[string][]signing.Requirement, reasons []Reason) {
	wanted = map[string]map[string][]signing.Requirement{}
	// By name, all of the cluster's come before those of namespaces.
	for _, o := range slices.SortedFunc(slices.Values(s.Policies), func(a, b Object) int { return strings.Compare(NameOf(a), NameOf(b)) }) {
		namespace, scopes, spec := policyOf(o)
		requirement, err := signing.FromSpec(spec)
		if err != nil {
			reasons = append(reasons, newReason(PolicyInvalid, NameOf(o), fmt.Sprintf("%s is not valid: %v", NameOf(o), err), NameOf(o)))
			continue
		}
		for _, scope := range scopes {
			if namespace != "" && isInside(scope, wanted[""]) {
				continue
			}
			if wanted[namespace] == nil {
				wanted[namespace], makers[namespace] = map[string][]signing.Requirement{}, map[string][]string{}
			}
			wanted[namespace][scope] = append(wanted[namespace][scope], requirement)
			makers[namespace][scope] = append(makers[namespace][scope], NameOf(o))
		}
	}
	return wanted, reasons
}

func isInside(scope string, scopes map[string][]signing.Requirement) bool {
	for wider := range scopes {
		if registries.ScopeIsNestedInsideScope(scope, wider) {
			return true
		}
	}
	return false
}

// whyRefused says why images are refused that neither list names; "" if they are not.
func (s Set) whyRefused(lists policyLists) string {
	switch {
	case len(lists.allowed) == 0 || len(lists.blocked) > 0: // the list that is written last sets the default
		return ""
	case len(s.Registries.AllowedRegistries) > 0:
		return "allowedRegistries of Image cluster does not name its registry"
	default:
		return "blockedRegistries of Image cluster names the release payload's repository alone, which makes nodes accept nothing else"
	}
}

// bothLists is the reason for which MCO rejects having both lists, unless the repository of
// the payload is all that is allowed.
func (s Set) bothLists(lists policyLists) []Reason {
	onlyPayload := len(lists.allowed) == 1 && lists.allowed[0] == payloadRepository(s.Payload)
	if len(lists.allowed) == 0 || len(lists.blocked) == 0 || onlyPayload {
		return nil
	}
	return []Reason{newReason(BothLists, "", "allowedRegistries and blockedRegistries of Image cluster are both set", imageCluster)}
}

// encode writes p as MCO does.
func (p policyFile) encode() []byte {
	data, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		panic(err) // it has nothing that JSON does not know
	}
	return data
}

// files returns what MCO writes, by path.
func (p *policyFiles) files() map[string][]byte {
	files := map[string][]byte{}
	if !p.written {
		return files
	}
	files[PolicyJSONPath] = []byte(basePolicyJSON)
	if len(p.cluster.Transports["docker"]) > 0 {
		files[PolicyJSONPath] = p.cluster.encode()
	}
	for namespace, own := range p.namespaces {
		files[namespacePolicyPath(namespace)] = own.encode()
	}
	if len(p.attached) > 0 {
		files[AttachmentsPath] = encodeAttachments(p.attached)
	}
	return files
}

// trust returns what nodes make of p, but for where they look for signatures.
func (p *policyFiles) trust() *trustPolicy {
	t := newTrustPolicy()
	t.cluster = p.cluster.rules(p.makers[""], nil, p.refused)
	for namespace, own := range p.namespaces {
		t.namespaces[namespace] = new(own.rules(p.makers[""], p.makers[namespace], p.refused))
	}
	return t
}

func newTrustPolicy() *trustPolicy { return &trustPolicy{namespaces: map[string]*scopeRules{}} }

// withPolicyFiles returns t as the nodes of s.Pool read it from files, which MCO has generated, and
// from those that MachineConfigs lay beside and over them. Those of t that are generated are kept, as t
// knows the objects behind them. A policy.json that no node can read ends every pull there, before and
// after any change of mirrors; it is left out.
func (s Set) withPolicyFiles(t *trustPolicy, files map[string][]byte) *trustPolicy {
	known := !t.isEmpty()
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
		rules := policy.rules(nil, nil, "the policy.json that nodes have does not name its registry")
		if namespace, ok := policyNamespace(file); ok {
			t.namespaces[namespace] = &rules
		} else if file == PolicyJSONPath {
			t.cluster = rules
		}
	}
	for file, contents := range files {
		lay(file, contents, true)
	}
	for _, f := range s.filesOf(cmp.Or(s.Pool, workerPool)) {
		if IsPolicyFile(f.Path) {
			lay(f.Path, f.Contents, false)
		}
	}
	t.attachments = newAttachments(attached)
	return t
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

func newScopeRule(scope string, wanted []signing.Requirement, makers []string, refused string) scopeRule {
	if len(wanted) == 0 || slices.ContainsFunc(wanted, func(r signing.Requirement) bool { return r.Type == signing.Reject }) {
		return scopeRule{refused: refused}
	}
	asking := slices.DeleteFunc(slices.Clone(wanted), func(r signing.Requirement) bool { return r.Type == signing.AcceptAnything })
	if len(asking) == 0 {
		return scopeRule{}
	}
	slices.Sort(makers)
	return scopeRule{trust: &Trust{Scope: scope, Requirements: signing.NewRequirements(asking...), Policies: slices.Compact(makers)}}
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
