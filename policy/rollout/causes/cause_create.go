package causes

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/status"
)

// notCreated explains a budget that waits for pods which their controller cannot make, as something
// forbids them. It reports whether any are missing.
func (d *diagnosis) notCreated(h *HoldUp, pod *rollout.Pod, r refusal) bool {
	owner := status.OwnerName{Namespace: pod.Namespace, Owner: pod.Owner}
	d.askOwner(owner)
	missing, wanted := d.missing(pod, r)
	answer, asked := d.Evidence.Owners[owner]
	if asked && answer.Wanted > 0 {
		missing, wanted = int(answer.Wanted-answer.Made), int(answer.Wanted)
	}
	if missing <= 0 {
		return false
	}
	h.Cause = PodNotCreated
	h.because(fmt.Sprintf("%s %s has not made %d of its %s", owner.Kind, owner.Name, missing, text.Count(wanted, "pod")))
	if answer.Refused == "" {
		h.Passing = true
		h.Remedies = append(h.Remedies, d.creations(pod))
		return true
	}
	h.because("it says: " + answer.Refused)
	h.Remedies = append(h.Remedies, d.creations(pod))
	h.Remedies = append(h.Remedies, permissions(pod, answer.Refused, missing)...)
	return true
}

// missing returns how many pods that a budget expects are not there, and how many it expects, by its
// status alone: none are missing of one with an absolute minimum.
func (d *diagnosis) missing(pod *rollout.Pod, r refusal) (missing, wanted int) {
	if r.of == nil {
		return 0, 0
	}
	there := 0
	for _, other := range d.PodsOf[pod.Namespace] {
		if !other.Deleted && r.covers(other) {
			there++
		}
	}
	wanted = r.of.Expected()
	return wanted - there, wanted
}

// creations shows what controllers say of pods that they cannot make.
func (d *diagnosis) creations(pod *rollout.Pod) Remedy {
	return look(in(pod.Namespace)+"get events --field-selector reason=FailedCreate", "shows why pods are not made, where something forbids them")
}

// permissions returns remedies by which the API server admits the pods that it refuses, by its words.
func permissions(pod *rollout.Pod, words string, missing int) []Remedy {
	const again = "; the annotation makes the controller try at once, which by itself it does within 17 minutes"
	anew := fmt.Sprintf(` && %sannotate %s %s --overwrite mirrorset-guard.io/try-again="$(date +%%s)"`, in(pod.Namespace), strings.ToLower(pod.Owner.Kind), text.Argument(pod.Owner.Name))
	if m := exceededQuota.FindStringSubmatch(words); m != nil {
		show := look(in(pod.Namespace)+"get resourcequota -o yaml", "shows the quotas; one that is not there is a ClusterResourceQuota")
		hard := raised(m[2], m[3], missing)
		if hard == "" {
			return []Remedy{show}
		}
		return []Remedy{show, act(fmt.Sprintf(`%spatch resourcequota %s --type=merge -p '{"spec":{"hard":{%s}}}'`, in(pod.Namespace), text.Argument(m[1]), hard)+anew,
			"raises the quota by what is missing"+again)}
	}
	if m := podSecurity.FindStringSubmatch(words); m != nil {
		lower := map[string]string{"restricted": "baseline", "baseline": "privileged"}[m[1]]
		return []Remedy{
			look(fmt.Sprintf("oc label --dry-run=server --overwrite namespace %s pod-security.kubernetes.io/enforce=%s", text.Argument(pod.Namespace), lower), "warns of pods that not even this level allows"),
			act(fmt.Sprintf("oc label --overwrite namespace %s pod-security.kubernetes.io/enforce=%s", text.Argument(pod.Namespace), lower)+anew,
				"allows what those pods do that still run, and the same to all others of the namespace"+again),
		}
	}
	if m := noAccount.FindStringSubmatch(words); m != nil {
		return []Remedy{act(in(pod.Namespace)+"create serviceaccount "+text.Argument(m[1])+anew, "makes the account that the pods run as, without any rights"+again)}
	}
	if m := deniedByPolicy.FindStringSubmatch(words); m != nil {
		return []Remedy{look("oc get validatingadmissionpolicybinding "+text.Argument(m[1])+" -o yaml", "shows what binds the policy that denies, and where; to exempt the namespace lets the pods in")}
	}
	if strings.Contains(words, "admission webhook") || strings.Contains(words, "failed calling webhook") {
		return []Remedy{look("oc get validatingwebhookconfigurations,mutatingwebhookconfigurations", "shows the webhooks; the one that is named above decides")}
	}
	return nil
}

// The words of the API server about a pod that it does not admit: of plugin/resourcequota/controller.go
// in k8s.io/apiserver, of admission/admission.go in k8s.io/pod-security-admission, of
// plugin/pkg/admission/serviceaccount and of plugin/policy/validating in k8s.io/kubernetes.
var (
	exceededQuota  = regexp.MustCompile(`exceeded quota: (\S+), requested: (.+), used: (.+), limited: `)
	podSecurity    = regexp.MustCompile(`violates PodSecurity "(restricted|baseline):`)
	noAccount      = regexp.MustCompile(`serviceaccount "([^"]+)" not found`)
	deniedByPolicy = regexp.MustCompile(`ValidatingAdmissionPolicy '[^']*' with binding '([^']+)' denied`)
)

// raised returns what a quota has to allow for so many pods more, as the fields of a JSON object; ""
// where the numbers cannot be read.
func raised(requested, used string, pods int) string {
	of := func(list string) map[string]resource.Quantity {
		quantities := map[string]resource.Quantity{}
		for item := range strings.SplitSeq(list, ",") {
			name, value, _ := strings.Cut(item, "=")
			if q, err := resource.ParseQuantity(value); err == nil {
				quantities[name] = q
			}
		}
		return quantities
	}
	wanted, has := of(requested), of(used)
	var fields []string
	for name, each := range wanted {
		total, ok := has[name]
		if !ok || strings.ContainsAny(name, `"'\`) {
			return ""
		}
		for range min(pods, maxRaised) {
			total.Add(each)
		}
		fields = append(fields, fmt.Sprintf("%q:%q", name, total.String()))
	}
	slices.Sort(fields)
	return strings.Join(fields, ",")
}

// maxRaised bounds for how many pods a quota is raised at once.
const maxRaised = 1000
