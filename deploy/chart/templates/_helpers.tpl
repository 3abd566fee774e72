{{- define "drift.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "drift.selector" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: agent
{{- end -}}

{{- define "drift.labels" -}}
{{ include "drift.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "drift.account" -}}
{{- default (include "drift.fullname" .) .Values.serviceAccount.name -}}
{{- end -}}

{{- define "drift.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ default $.Chart.AppVersion .tag }}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* What the chart can say is wrong beyond what values.schema.json can. */}}
{{- define "drift.check" -}}
{{- if and (eq .Values.profile "heal") (not .Values.host.writablePaths) -}}
{{- fail "profile heal puts nothing back without host.writablePaths: name the directories of the host that it may write to, as in --set 'host.writablePaths={/etc/app}'" -}}
{{- end -}}
{{- range concat .Values.host.paths .Values.host.writablePaths -}}
{{- if contains "/../" (printf "%s/" .) -}}
{{- fail (printf "host path %s: without `..`" .) -}}
{{- end -}}
{{- end -}}
{{- range .Values.host.paths -}}
{{- if has . $.Values.host.writablePaths -}}
{{- fail (printf "%s is in host.paths and in host.writablePaths: name it once" .) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Which capabilities: docs/security.md says what each is for. */}}
{{- define "drift.capabilities" -}}
- BPF
- PERFMON
- DAC_READ_SEARCH
- SYS_PTRACE
# Until it listens: to become a user who owns nothing but the state folder, and to give it that.
- SETPCAP
- SETUID
- SETGID
- CHOWN
- DAC_OVERRIDE
{{- if eq .Values.profile "heal" }}
- CHECKPOINT_RESTORE
- FOWNER
- FSETID
- SETFCAP
- LINUX_IMMUTABLE
{{- if .Values.security.trustedAttributes }}
- SYS_ADMIN
{{- end }}
{{- end }}
{{- if .Values.security.oldKernels }}
- SYS_RESOURCE
{{- end }}
{{- end -}}
