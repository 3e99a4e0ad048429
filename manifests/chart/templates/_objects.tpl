{{/*
The objects are those of the kustomize base and its overlays, whose files are in files/. A template
reads one, changes what values ask for, and prints it.
*/}}

{{/* The objects of files that need no change: list of the context and the files' names. */}}
{{- define "guard.files" -}}
{{- $files := (first .).Files -}}
{{- range rest . }}
---
{{ required (printf "the chart is without files/%s: it was not packaged as a whole" .) ($files.Get (printf "files/%s" .)) | trim }}
{{- end }}
{{- end }}

{{/* One object, as YAML without comments: list of the context and the file's name. */}}
{{- define "guard.object" -}}
{{- $name := last . -}}
{{- required (printf "the chart is without files/%s: it was not packaged as a whole" $name) ((first .).Files.Get (printf "files/%s" $name)) | fromYaml | toYaml -}}
{{- end }}
