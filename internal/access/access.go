// Package access lets clients through whose bearer token the cluster knows, and whom a role
// permits the path as a nonResourceURL: 401 for an invalid token, 403 for a user without the
// right, 503 if the API server cannot be asked.
//
// It is controller-runtime's filter for metrics with another answer to errors: that one answers
// 500 to an invalid token, which looks like a fault of the server.
//
// A browser comes through a proxy that has logged its user in. The proxy passes the user's token on in
// the header X-Forwarded-Access-Token, as OpenShift's oauth-proxy does, and that token is judged like any
// other: no header names a user. It is of a scope that the OAuth server limits to one namespace, where no
// nonResourceURL is. So a path may have a Resource, and the right to get that opens it too.
package access

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

const (
	// tokenTime, allowTime and denyTime are how long answers of the API server are repeated.
	tokenTime = time.Minute
	allowTime = 5 * time.Minute
	denyTime  = 30 * time.Second
	// askTime bounds one question.
	askTime = 10 * time.Second
)

// retry is how a question that failed is repeated.
var retry = wait.Backoff{Duration: 500 * time.Millisecond, Factor: 1.5, Jitter: 0.2, Steps: 3}

// ForwardedToken is the header in which a proxy passes its user's token on.
const ForwardedToken = "X-Forwarded-Access-Token" //nolint:gosec // a name

// A Resource stands for a path where rights are limited to a namespace. There need not be such objects.
type Resource struct{ Namespace, Group, Resource string }

// A filter asks the cluster about clients.
type filter struct {
	next           http.Handler
	resources      map[string]Resource
	authentication authenticator.Request
	authorization  authorizer.Authorizer
	log            logr.Logger
}

// New returns h behind the authorization of the cluster that config leads to. A client that may get one of
// resources may get its path, the key.
func New(config *rest.Config, h http.Handler, resources map[string]Resource, log logr.Logger) (http.Handler, error) {
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client for authorization: %w", err)
	}
	f := filter{next: h, resources: resources, log: log}
	f.authentication, _, err = authenticatorfactory.DelegatingAuthenticatorConfig{
		Anonymous: &apiserver.AnonymousAuthConfig{Enabled: false}, CacheTTL: tokenTime,
		TokenAccessReviewClient: kube.AuthenticationV1(), TokenAccessReviewTimeout: askTime, WebhookRetryBackoff: &retry,
	}.New()
	if err != nil {
		return nil, fmt.Errorf("preparing authentication: %w", err)
	}
	f.authorization, err = authorizerfactory.DelegatingAuthorizerConfig{
		SubjectAccessReviewClient: kube.AuthorizationV1(), AllowCacheTTL: allowTime, DenyCacheTTL: denyTime, WebhookRetryBackoff: &retry,
	}.New()
	if err != nil {
		return nil, fmt.Errorf("preparing authorization: %w", err)
	}
	return f, nil
}

// ServeHTTP implements http.Handler.
func (f filter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if code := f.judge(r); code != http.StatusOK {
		http.Error(w, http.StatusText(code), code)
		return
	}
	f.next.ServeHTTP(w, r)
}

// judge returns the status with which to refuse r, http.StatusOK to serve it.
func (f filter) judge(r *http.Request) int {
	if token := r.Header.Get(ForwardedToken); token != "" && r.Header.Get("Authorization") == "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	r.Header.Del(ForwardedToken)
	client, known, err := f.authentication.AuthenticateRequest(r)
	switch {
	case isUnanswered(err):
		f.log.Error(err, "Could not ask the API server about a token")
		return http.StatusServiceUnavailable
	case err != nil || !known: // the error describes the token's fault
		return http.StatusUnauthorized
	}
	verb := strings.ToLower(r.Method)
	code := f.permit(r.Context(), authorizer.AttributesRecord{User: client.User, Verb: verb, Path: r.URL.Path})
	if of, ok := f.resources[r.URL.Path]; ok && code == http.StatusForbidden {
		code = f.permit(r.Context(), authorizer.AttributesRecord{
			User: client.User, Verb: verb, ResourceRequest: true, Namespace: of.Namespace, APIGroup: of.Group, APIVersion: "*", Resource: of.Resource,
		})
	}
	return code
}

// permit returns http.StatusOK for what the cluster permits.
func (f filter) permit(ctx context.Context, what authorizer.Attributes) int {
	decision, _, err := f.authorization.Authorize(ctx, what)
	switch {
	case decision == authorizer.DecisionAllow && err == nil:
		return http.StatusOK
	case isUnanswered(err):
		f.log.Error(err, "Could not ask the API server what a client may do")
		return http.StatusServiceUnavailable
	default:
		return http.StatusForbidden
	}
}

// isUnanswered reports whether err is of the question instead of an answer: of the connection, or
// that the API server does not take it.
func isUnanswered(err error) bool {
	if several, ok := errors.AsType[utilerrors.Aggregate](err); ok { // which errors.As does not look into
		return slices.ContainsFunc(several.Errors(), isUnanswered)
	}
	var status apierrors.APIStatus
	var connection *url.Error
	return errors.As(err, &status) || errors.As(err, &connection) || wait.Interrupted(err)
}
