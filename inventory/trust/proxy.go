package trust

import (
	"net/http"
	"net/url"
	"strings"

	configv1 "github.com/openshift/api/config/v1"
	"golang.org/x/net/http/httpproxy"
)

// proxiesOf returns the proxies of nodes. The machine-config-operator sets HTTP_PROXY,
// HTTPS_PROXY and NO_PROXY of CRI-O from the status, which has the cluster's own
// networks and names in noProxy, and the spec has not.
func proxiesOf(proxy *configv1.Proxy) httpproxy.Config {
	return httpproxy.Config{
		HTTPProxy:  proxy.Status.HTTPProxy,
		HTTPSProxy: proxy.Status.HTTPSProxy,
		NoProxy:    proxy.Status.NoProxy,
	}
}

// proxyFunc decides as net/http does from the environment of CRI-O.
func proxyFunc(proxies httpproxy.Config) func(*http.Request) (*url.URL, error) {
	decide := proxies.ProxyFunc()
	return func(r *http.Request) (*url.URL, error) { return decide(r.URL) }
}

// proxyProblems says which proxies cannot be used, without their URLs.
func proxyProblems(proxies httpproxy.Config) []string {
	var problems []string
	for _, p := range []struct{ field, value string }{
		{"status.httpProxy", proxies.HTTPProxy},
		{"status.httpsProxy", proxies.HTTPSProxy},
	} {
		if what := proxyProblem(p.value); what != "" {
			problems = append(problems, p.field+" of proxy.config "+what)
		}
	}
	return problems
}

// proxyProblem returns "" for what net/http can use. Without a scheme it means http.
func proxyProblem(value string) string {
	if value == "" {
		return ""
	}
	if !strings.Contains(value, "://") {
		value = "http://" + value
	}
	u, err := url.Parse(value)
	if err != nil || u.Hostname() == "" { // nodes would misread it
		return "is not a URL that nodes can use"
	}
	switch u.Scheme {
	case "http", "https", "socks5", "socks5h":
		return ""
	default:
		return "has a scheme that nodes cannot use; it has to be http or https"
	}
}
