package redact

import (
	"net/netip"
	"regexp"
	"slices"
	"strings"
)

// The names behind which a secret stands, whatever it looks like. A name may have further parts before it.
const (
	keyNames      = `api[-_]?keys?|apikeys?|access[-_]?key(?:[-_]?id)?|secret[-_]?(?:access[-_]?)?key|account[-_]?key|license[-_]?key|encryption[-_]?key|signing[-_]?key|private[-_]?key|ssh[-_]?key`
	tokenNames    = `(?:auth|access|refresh|id|hf|hub|bot|bearer|session|security|csrf|service|personal|user|admin|github|gitlab|wandb|registry)[-_]?token`
	passwordNames = `passw(?:or)?d|passphrase|passwd|secrets?|credentials?|session[-_]?(?:id|key)`
	anyValue      = `"[^"\n]*(?:"|$)|'[^'\n]*(?:'|$)|[^\s"',;&)\]}]+`
	// between and apart may hold the backslashes of a text within a text.
	between = `\\*["']?\s*[:=]\s*\[?\s*\\*`
	apart   = `[ \t]+\\*`
)

// passwordWords are in the names of passwords, one in each.
var passwordWords = []string{"passw", "passphrase", "secret", "credential", "session"}

// named are values that stand behind a name: of a header, an option, a variable, a field.
var named = []rule{
	{kind: APIKey, group: 1, low: []string{"authorization"}, find: regexp.MustCompile(`(?i)\b(?:proxy-)?authorization` + between + `["']?(?:(?:bearer|basic|token|digest|negotiate|apikey)\s+)?([^\s"',;]+)`), ok: secret},
	{kind: Cookie, group: 1, low: []string{"cookie"}, find: regexp.MustCompile(`(?i)\b(?:set-)?cookie` + between + `["']?([^\s"',;]+(?:;\s*[^\s"',;]+)*)`), ok: secret},
	{kind: Token, group: 1, low: []string{"bearer"}, find: regexp.MustCompile(`(?i)\bbearer\s+([A-Za-z0-9._~+/=-]{8,})`), ok: hasDigit},
	{kind: APIKey, group: 1, low: []string{"key"}, find: regexp.MustCompile(`(?i)(?:` + keyNames + `)(?:` + between + `|` + apart + `)(` + anyValue + `)`), ok: given},
	{kind: Token, group: 1, low: []string{"token"}, find: regexp.MustCompile(`(?i)(?:` + tokenNames + `)(?:` + between + `|` + apart + `)(` + anyValue + `)`), ok: given},
	{kind: Password, group: 1, low: passwordWords, find: regexp.MustCompile(`(?i)(?:` + passwordNames + `)(?:` + between + `|` + apart + `)(` + anyValue + `)`), ok: given},
	{kind: Password, group: 1, low: []string{"pwd"}, find: regexp.MustCompile(`(?i)\bpwd["']?[:=]["']?([^\s"',;&)\]}/]+)`), ok: secret},
	{kind: Token, group: 1, find: regexp.MustCompile(`\b[A-Z0-9_]*_?TOKEN=(` + anyValue + `)`), ok: secret, hint: "TOKEN="},
	{kind: Token, group: 1, low: []string{"token", "key", "auth"}, find: regexp.MustCompile(`(?i)(?:^|[^a-z])(?:token|key|auth)["']?\s*[:=]\s*["']?([A-Za-z0-9._~+/=-]{16,})`), ok: random},
	{kind: Token, group: 1, hint: "token", find: regexp.MustCompile(`--token[ =](` + anyValue + `)`), ok: secret},
	{kind: APIKey, group: 1, hint: "=", find: regexp.MustCompile(`(?i)[?&](?:key|token|auth|sig|code|sas|jwt|x-amz-[a-z-]+|x-goog-[a-z-]+)=([^&\s"'<>#]+)`), ok: secret},
	{kind: Serial, group: 1, low: []string{"serial"}, find: regexp.MustCompile(`(?i)\bserial(?:[ _-]?(?:number|num|no))?["']?\s*[:=]\s*["']?([A-Za-z0-9-]{5,})`), ok: hasDigit},
	{kind: UUID, low: []string{"gpu-", "mig-"}, find: regexp.MustCompile(`\b(?:GPU|MIG|MIG-GPU)-[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\b`)},
	{kind: UUID, group: 1, low: []string{"id"}, find: regexp.MustCompile(`(?i)\b(?:gpu|device|machine|system|product|board|host|boot|hardware)[-_ ]?(?:uu)?id["']?\s*[:=]\s*["']?([0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12})`)},
	{kind: User, group: 1, low: []string{"user", "log"}, find: regexp.MustCompile(`(?i)(?:\b(?:[a-z]+_)?(?:user|username|user[-_]name|logname|login)["']?=|--user(?:name)?[ =]|"(?:user|username|user_name|login)\\*"\s*:\s*\\*|\busername:\s*)(` + anyValue + `)`), ok: person},
	{kind: Host, group: 1, low: []string{"host", "node", "master"}, find: regexp.MustCompile(`(?i)(?:\b(?:[a-z]+_)?(?:host|hostname|host[-_]name|node[-_]?name|master[-_]addr|host[-_]ip)["']?=|--(?:host|hostname|node-name|master-addr)[ =]|"?host[-_]?name"?\s*:\s*)(` + anyValue + `)`), ok: machine},
}

// noSecrets stand where a value is missing.
var noSecrets = []string{"", "none", "null", "nil", "true", "false", "undefined", "is", "or", "and", "to", "in", "with", "for", "of", "not", "required", "missing", "invalid", "provided", "unset", "<none>"}

// secret says whether a value is one, and not a word in its place.
func secret(text string, from, to int) bool {
	v := strings.Trim(text[from:to], `"'`)
	return !slices.Contains(noSecrets, strings.ToLower(v)) && !IsPlaceholder(v) && !strings.HasPrefix(v, "$")
}

// given is secret where the name and the value may stand apart by a blank alone, as an option and its value do:
// there the name must be an option.
func given(text string, from, to int) bool {
	before := strings.TrimRight(text[:from], " \t\\")
	if strings.HasSuffix(before, "=") || strings.HasSuffix(before, ":") || strings.HasSuffix(before, "[") {
		return secret(text, from, to)
	}
	word := before[strings.LastIndexAny(before, " \t\n\"'")+1:]
	return strings.HasPrefix(word, "-") && !strings.HasPrefix(text[from:to], "-") && secret(text, from, to)
}

// person says whether a value names somebody.
func person(text string, from, to int) bool {
	v := strings.Trim(text[from:to], `"'`)
	return secret(text, from, to) && !slices.Contains(commonUsers, strings.ToLower(v)) && strings.Trim(v, "0123456789:") != ""
}

// machine says whether a value names a machine. An address is found by its own rule.
func machine(text string, from, to int) bool {
	v := strings.ToLower(strings.Trim(text[from:to], `"'[]`))
	if _, err := netip.ParseAddr(v); err == nil {
		return false
	}
	return secret(text, from, to) && !slices.Contains(anybodys, v) && strings.Trim(v, "0123456789.:") != ""
}

// commonUsers are names of accounts that say nothing about a person.
var commonUsers = []string{"root", "user", "users", "ubuntu", "debian", "admin", "administrator", "system", "assistant", "nobody", "guest",
	"runner", "docker", "vllm", "ollama", "llama", "sglang", "app", "home", "ec2-user", "jovyan", "model", "default", "gpu", "host", "server"}

// commonHosts are names of machines that are words of ordinary text.
var commonHosts = []string{"localhost", "ubuntu", "debian", "fedora", "arch", "server", "host", "gpu", "vllm", "ollama", "llama", "sglang",
	"model", "desktop", "workstation", "linux", "test", "bench", "cuda", "docker", "container", "buildkitsandbox", "local", "machine"}

// The lengths from which a name is looked for at all, and from which anywhere in a text: a short one is a word of
// ordinary text too.
const (
	leastName      = 3
	leastPlainName = 5
)

// ownRules are those of the user's home folder and name and of the machine's name.
func ownRules(o Options) []rule {
	var list []rule
	if home := strings.TrimRight(o.Home, `/\`); len(home) > 1 {
		list = append(list, homeRule(home))
	}
	add := func(kind Kind, name string, common []string) {
		if len(name) >= leastName && !slices.Contains(common, strings.ToLower(name)) {
			list = append(list, nameRule(kind, name))
		}
	}
	add(Host, o.Host, commonHosts)
	if short, _, cut := strings.Cut(o.Host, "."); cut {
		add(Host, short, commonHosts)
	}
	add(User, o.User, commonUsers)
	return list
}

func homeRule(home string) rule {
	return rule{find: regexp.MustCompile(regexp.QuoteMeta(home)), hint: home, with: "~", ok: func(text string, from, to int) bool {
		// The home of root has the same name in every container.
		inContainer := home == "/root" && from > 0 && text[from-1] == ':'
		return beginsPath(text, from, to) && !wordAfter(text, to) && !strings.HasPrefix(text[to:], "-") && !inContainer
	}}
}

// nameRule takes out a name where it is a word of its own; a short one only as a part of a path or of an address.
func nameRule(kind Kind, name string) rule {
	plain := len(name) >= leastPlainName || strings.ContainsAny(name, "0123456789")
	return rule{kind: kind, find: regexp.MustCompile(`(?i)` + regexp.QuoteMeta(name)), ok: func(text string, from, to int) bool {
		before, after := text[:from], text[to:]
		if wordBefore(text, from) || wordAfter(text, to) || strings.HasSuffix(before, "-") || strings.HasPrefix(after, "-") {
			return false
		}
		return plain || strings.HasPrefix(after, "@") || strings.HasPrefix(after, ":") || strings.HasSuffix(before, "@") ||
			strings.HasSuffix(before, "/") || strings.HasSuffix(before, `\`)
	}}
}
