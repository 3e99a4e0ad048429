package input

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	auditv1alpha1 "github.com/mirrorset-guard/mirrorset-guard/api/audit/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/review/audit"
)

const (
	eventGroup = "audit.k8s.io/"
	// eventVersion is the only one that API servers have written since Kubernetes 1.24.
	eventVersion = "audit.k8s.io/v1"
	// failedOpen begins the annotation that says which webhook was not asked
	// (ValidatingAuditAnnotationFailedOpenKeyPrefix in k8s.io/apiserver,
	// pkg/admission/plugin/webhook/validating/dispatcher.go).
	failedOpen = "failed-open.validating.webhook.admission.k8s.io/"
	apiServer  = "kube-apiserver"
)

// An event is the part that is read of an Event of audit.k8s.io/v1.
type event struct {
	AuditID          string    `json:"auditID"`
	Stage            string    `json:"stage"`
	RequestURI       string    `json:"requestURI"`
	Verb             string    `json:"verb"`
	User             eventUser `json:"user"`
	ImpersonatedUser eventUser `json:"impersonatedUser"`
	ObjectRef        struct {
		Resource   string `json:"resource"`
		Namespace  string `json:"namespace"`
		Name       string `json:"name"`
		APIGroup   string `json:"apiGroup"`
		APIVersion string `json:"apiVersion"`
	} `json:"objectRef"`
	ResponseStatus struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"responseStatus"`
	RequestReceived time.Time         `json:"requestReceivedTimestamp"`
	StageTime       time.Time         `json:"stageTimestamp"`
	Annotations     map[string]string `json:"annotations"`
}

type eventUser struct {
	Username string   `json:"username"`
	Groups   []string `json:"groups"`
}

// decodeEvent returns the decision in an event; nil if there is none. Of the events
// of a request, one for each stage, the last has the annotations.
func (r Reader) decodeEvent(line []byte, h head) (*Record, error) {
	if h.APIVersion != eventVersion {
		return nil, fmt.Errorf("an event of %s, which this version does not know: it reads %s", h.APIVersion, eventVersion)
	}
	var e event
	if err := json.Unmarshal(line, &e); err != nil {
		return nil, notReadable(err)
	}
	if e.Stage != "ResponseComplete" && e.Stage != "Panic" {
		return nil, nil
	}
	for _, webhook := range r.Webhooks {
		if d, found := e.decision(webhook); found {
			return &Record{Decision: d, key: keyOf(d, e, webhook)}, nil
		}
	}
	return nil, nil
}

// keyOf returns the uid of the admission request, which the guard's own record has too. Older
// guards did not say it.
func keyOf(d auditv1alpha1.Decision, e event, webhook string) string {
	if d.UID != "" {
		return d.UID
	}
	return e.AuditID + " " + webhook
}

// decision returns the decision of one webhook, if it has made one, or was not asked.
func (e event) decision(webhook string) (auditv1alpha1.Decision, bool) {
	d := auditv1alpha1.Decision{APIVersion: auditv1alpha1.APIVersion, Kind: auditv1alpha1.Kind, Source: apiServer}
	switch annotations := e.annotationsOf(webhook); {
	case annotations["verdict"] != "":
		e.annotated(&d, annotations)
	case e.failedOpen(webhook):
		d.Verdict, d.Admitted = "unreviewed", e.ResponseStatus.Code < 400
		d.Reason = "the guard gave no answer, and the webhook fails open"
	case strings.Contains(e.ResponseStatus.Message, fmt.Sprintf("failed calling webhook %q", webhook)):
		d.Verdict, d.Reason = "none", audit.Text(e.ResponseStatus.Message)
	default:
		return d, false
	}
	e.circumstances(&d)
	return d, true
}

// annotationsOf returns the annotations of a webhook, under the keys that it gave them.
func (e event) annotationsOf(webhook string) map[string]string {
	own := map[string]string{}
	for key, value := range e.Annotations {
		if name, found := strings.CutPrefix(key, webhook+"/"); found {
			own[name] = value
		}
	}
	return own
}

func (e event) failedOpen(webhook string) bool {
	for key, value := range e.Annotations {
		if strings.HasPrefix(key, failedOpen) && value == webhook {
			return true
		}
	}
	return false
}

// annotated sets what the guard's annotations say.
func (e event) annotated(d *auditv1alpha1.Decision, a map[string]string) {
	d.UID, d.Verdict, d.Mode, d.Reason, d.Forecast = a["uid"], a["verdict"], a["mode"], a["reason"], a["forecast"]
	d.OldSpecHash, d.NewSpecHash = a["oldSpecHash"], a["newSpecHash"]
	d.Operation, d.DryRun = a["operation"], a["dryRun"] == "true"
	if d.Mode == "" {
		d.Mode = "enforce"
	}
	d.Admitted = slices.Contains([]string{"allowed", "waived", "overridden", "skipped"}, d.Verdict) || d.Verdict != "denied" && d.Mode != "enforce"
	for _, rule := range listed(a["rules"]) {
		d.Rules = append(d.Rules, auditv1alpha1.RuleCount{Rule: rule})
	}
	d.FindingsOmitted, _ = strconv.Atoi(a["findings"])
	d.Exemptions = listed(a["exemptions"])
	if value, found := a["override"]; found {
		d.Override = overrideOf(value)
	}
	if a["rerouted"] != "" {
		d.Images = &auditv1alpha1.Images{}
		for key, to := range map[string]*int{"rerouted": &d.Images.Rerouted, "verified": &d.Images.Verified, "unverified": &d.Images.Unverified} {
			*to, _ = strconv.Atoi(a[key])
		}
	}
}

func listed(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, ",")
}

// overrideOf reads the annotation about an override: "used CODE: REASON", or "does not count:
// WHY".
func overrideOf(value string) *auditv1alpha1.Override {
	if why, found := strings.CutPrefix(value, "does not count: "); found {
		return &auditv1alpha1.Override{Result: "unused", Refused: why}
	}
	code, reason, _ := strings.Cut(strings.TrimPrefix(value, "used "), ": ")
	return &auditv1alpha1.Override{Result: "used", Code: code, Reason: reason, Confirmed: true}
}

// circumstances sets who did what, and when.
func (e event) circumstances(d *auditv1alpha1.Decision) {
	d.Time = e.StageTime
	d.Seconds = e.StageTime.Sub(e.RequestReceived).Seconds() // of the whole request
	user, impersonator := e.User, ""
	if e.ImpersonatedUser.Username != "" {
		user, impersonator = e.ImpersonatedUser, e.User.Username
	}
	d.User = auditv1alpha1.User{Name: user.Username, Groups: user.Groups, Impersonator: impersonator}
	ref := e.ObjectRef
	d.Object = auditv1alpha1.Object{Group: ref.APIGroup, Version: ref.APIVersion, Kind: kindOf(ref.Resource), Namespace: ref.Namespace, Name: ref.Name}
	if d.Operation == "" { // an older guard, or none
		d.Operation = operationOf(e.Verb)
		address, err := url.Parse(e.RequestURI)
		d.DryRun = err == nil && address.Query().Get("dryRun") == "All"
	}
}

// kindOf returns the kind of a resource that the guard reviews; the resource of others.
func kindOf(resource string) string {
	for _, kind := range []string{"ImageTagMirrorSet", "ImageDigestMirrorSet", "Image", "ImageContentSourcePolicy", "ClusterImagePolicy", "ImagePolicy", "PinnedImageSet"} {
		if plural, _ := meta.UnsafeGuessKindToResource(schema.GroupVersionKind{Kind: kind}); plural.Resource == resource {
			return kind
		}
	}
	return resource
}

func operationOf(verb string) string {
	switch verb {
	case "create":
		return "CREATE"
	case "update", "patch":
		return "UPDATE"
	case "delete", "deletecollection":
		return "DELETE"
	default:
		return strings.ToUpper(verb)
	}
}
