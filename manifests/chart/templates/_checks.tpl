{{/*
What is wrong with values, and what the cluster lacks. It is looked at before anything is created: a
template that fails ends the installation. `helm template` and Argo CD show templates no cluster: what
it lacks is then not known, and not looked at.
*/}}
{{- define "guard.checks" -}}
{{- include "guard.checks.values" . -}}
{{- if lookup "v1" "Namespace" "" "default" -}}
{{- include "guard.checks.cluster" . -}}
{{- end -}}
{{- end }}

{{- define "guard.checks.values" -}}
{{- $image := .Values.image -}}
{{- if ne .Release.Namespace "mirrorset-guard" -}}
{{- fail (printf "namespace %q: the guard runs in mirrorset-guard, which its alerts, its certificate and its own rules go by: use --namespace mirrorset-guard --create-namespace" .Release.Namespace) -}}
{{- end -}}
{{- if $image.tag -}}
{{- fail (printf "image.tag %q: the guard runs by digest, as a tag may be moved after it was checked: set image.digest instead" $image.tag) -}}
{{- end -}}
{{- if not $image.repository -}}
{{- fail "image.repository is not set: give REGISTRY/NAME of the guard's image, and image.digest" -}}
{{- end -}}
{{- if or (contains "@" $image.repository) (regexMatch ":[^/]*$" $image.repository) -}}
{{- fail (printf "image.repository %q: this is more than REGISTRY/NAME: put the digest into image.digest; a tag is not needed" $image.repository) -}}
{{- end -}}
{{- if not (regexMatch "^sha256:[0-9a-f]{64}$" $image.digest) -}}
{{- fail (printf "image.digest %q: want sha256: and 64 hexadecimal digits, as make image prints them; a tag is not accepted" $image.digest) -}}
{{- end -}}
{{- if and .Values.tls.issuerRef (ne .Values.tls.source "cert-manager") -}}
{{- fail (printf "tls.issuerRef is for tls.source cert-manager, and tls.source is %s" .Values.tls.source) -}}
{{- end -}}
{{- if and .Values.tls.caBundle (ne .Values.tls.source "secret") -}}
{{- fail (printf "tls.caBundle is for tls.source secret, and tls.source is %s" .Values.tls.source) -}}
{{- end -}}
{{- if and .Values.tls.caBundle (not (contains "-----BEGIN CERTIFICATE-----" .Values.tls.caBundle)) -}}
{{- fail "tls.caBundle holds no certificate: give the CA as PEM, which begins with -----BEGIN CERTIFICATE-----" -}}
{{- end -}}
{{- $link := .Values.consoleLink -}}
{{- if and $link.host (not (regexMatch "^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)+$" $link.host)) -}}
{{- fail (printf "consoleLink.host %q: want the host of a Route alone, as in mirrorset-guard.apps.example.com" $link.host) -}}
{{- end -}}
{{- if and $link.host (not (regexMatch "^[^@ ]+/[^@ ]+@sha256:[0-9a-f]{64}$" $link.proxyImage)) -}}
{{- fail (printf "consoleLink.proxyImage %q: want OpenShift's oauth-proxy as REGISTRY/NAME@sha256:...; oc -n openshift get imagestreamtag oauth-proxy:v4.4 shows that of the release (docs/report.md)" $link.proxyImage) -}}
{{- end -}}
{{- if and $link.host (ne .Values.tls.source "service-ca") -}}
{{- fail (printf "consoleLink.host is set, and tls.source is %s: the proxy trusts the service CA alone" .Values.tls.source) -}}
{{- end -}}
{{- if and .Values.monitoring.grafana (not .Values.monitoring.enabled) -}}
{{- fail "monitoring.grafana is set, and monitoring.enabled is not: there would be no metrics to show" -}}
{{- end -}}
{{- end }}

{{- define "guard.checks.cluster" -}}
{{- $apis := .Capabilities.APIVersions -}}
{{- if not ($apis.Has "config.openshift.io/v1/ImageDigestMirrorSet") -}}
{{- fail "this cluster does not serve config.openshift.io/v1 ImageDigestMirrorSet: it is not OpenShift 4.13 or later, and there is nothing to guard" -}}
{{- end -}}
{{- range list "openshift-config" "openshift-config-managed" -}}
{{- if not (lookup "v1" "Namespace" "" .) -}}
{{- fail (printf "this cluster has no namespace %s, where the guard reads what nodes are given: it is not OpenShift" .) -}}
{{- end -}}
{{- end -}}
{{- if eq .Values.tls.source "service-ca" -}}
{{- if not (lookup "v1" "Namespace" "" "openshift-service-ca") -}}
{{- fail "tls.source is service-ca, and this cluster has no service CA (there is no namespace openshift-service-ca): set tls.source=cert-manager, or tls.source=secret with a certificate of your own" -}}
{{- end -}}
{{- else if eq .Values.tls.source "cert-manager" -}}
{{- if not ($apis.Has "cert-manager.io/v1/Certificate") -}}
{{- fail "tls.source is cert-manager, and this cluster does not serve cert-manager.io/v1 Certificate: install cert-manager first, or set tls.source=service-ca, or tls.source=secret with a certificate of your own" -}}
{{- end -}}
{{- else -}}
{{- $_ := include "guard.secret" . -}}
{{- end -}}
{{- if and .Values.monitoring.enabled (not ($apis.Has "monitoring.coreos.com/v1/ServiceMonitor")) -}}
{{- fail "monitoring.enabled is set, and this cluster does not serve monitoring.coreos.com/v1 ServiceMonitor: set monitoring.enabled=false" -}}
{{- end -}}
{{- if and .Values.machineConfigs (not ($apis.Has "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy")) -}}
{{- fail "machineConfigs is set, and this cluster does not serve admissionregistration.k8s.io/v1 ValidatingAdmissionPolicy: it needs OpenShift 4.17, so leave machineConfigs empty" -}}
{{- end -}}
{{- if .Values.consoleLink.host -}}
{{- range list "console.openshift.io/v1/ConsoleLink" "route.openshift.io/v1/Route" -}}
{{- if not ($apis.Has .) -}}
{{- fail (printf "consoleLink.host is set, and this cluster does not serve %s: leave consoleLink.host empty" .) -}}
{{- end -}}
{{- end -}}
{{- $cookie := lookup "v1" "Secret" "mirrorset-guard" "mirrorset-guard-report-cookie" -}}
{{- if not (get ($cookie.data | default dict) "secret") -}}
{{- fail "consoleLink.host is set, and Secret mirrorset-guard-report-cookie in mirrorset-guard has no key secret: create it first (docs/report.md)" -}}
{{- end -}}
{{- end -}}
{{- if .Values.clientCA.enabled -}}
{{- $clients := lookup "v1" "ConfigMap" "mirrorset-guard" "mirrorset-guard-client-ca" -}}
{{- if not (contains "-----BEGIN CERTIFICATE-----" (get ($clients.data | default dict) "ca.crt")) -}}
{{- fail "clientCA.enabled is set, and ConfigMap mirrorset-guard-client-ca in mirrorset-guard has no certificate in ca.crt: create it first, with the CA of the API servers' client certificates (docs/tls.md)" -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* The CA of tls.source=secret, in base64; "" if it is not in the values, and there is no cluster to look at. */}}
{{- define "guard.ca" -}}
{{- if .Values.tls.caBundle -}}
{{- b64enc .Values.tls.caBundle -}}
{{- else if lookup "v1" "Namespace" "" "default" -}}
{{- include "guard.secret" . -}}
{{- end -}}
{{- end }}

{{/* The CA in the Secret of tls.source=secret, in base64. */}}
{{- define "guard.secret" -}}
{{- $secret := lookup "v1" "Secret" "mirrorset-guard" "mirrorset-guard-tls" -}}
{{- range list "tls.crt" "tls.key" "ca.crt" -}}
{{- if not (get ($secret.data | default dict) .) -}}
{{- fail (printf "tls.source is secret, and Secret mirrorset-guard-tls in mirrorset-guard has no %s: create it first (docs/install.md), or set tls.source=service-ca or tls.source=cert-manager" .) -}}
{{- end -}}
{{- end -}}
{{- index $secret.data "ca.crt" -}}
{{- end }}
