{{- define "turnbuckle.name" -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" }}
{{- end }}

{{- define "turnbuckle.labels" -}}
{{ include "turnbuckle.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "turnbuckle.selector" -}}
app.kubernetes.io/name: turnbuckle
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
