package dialect

import (
	"bytes"
	"cmp"
	"encoding/json"
	"html"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	maxErrorText = 500     // bytes of an error text
	maxErrorBody = 1 << 16 // bytes of a body that are looked at if it is no JSON
)

var (
	htmlTitle  = regexp.MustCompile(`(?is)<title[^>]*>(.*?)</title>`)
	htmlHidden = regexp.MustCompile(`(?is)<!--.*?-->|<script\b.*?</script>|<style\b.*?</style>`)
	htmlTag    = regexp.MustCompile(`(?s)<[^>]*>`)
)

// ErrorText is the best text for a human in the body of an HTTP error: the
// message of a JSON error in the shapes of OpenAI, FastAPI and others, the text
// of an HTML page, or the body itself; in one line, at most 500 bytes.
func ErrorText(body []byte) string {
	body = bytes.TrimSpace(body)
	if data, ok := bytes.CutPrefix(body, []byte("data:")); ok {
		// An error inside an event stream: the first event says it.
		data, _, _ = bytes.Cut(data, []byte("\n"))
		body = bytes.TrimSpace(data)
	}
	if doc, ok := document(body); ok {
		return oneLine(documentError(doc))
	}
	text := string(body[:min(len(body), maxErrorBody)])
	if strings.HasPrefix(text, "<") {
		text = htmlText(text)
	}
	return oneLine(text)
}

// streamError is the text and the code of the error in an event, empty if it
// has none. In an event with parts of an answer only an error member counts.
func streamError(data []byte, known bool) (string, int) {
	doc, _ := document(data)
	object, _ := doc.(map[string]any)
	fault := object["error"]
	if !present(fault) {
		message, _ := object["message"].(string)
		if known || message == "" && !present(object["detail"]) {
			return "", 0
		}
		fault = object
	}
	return cmp.Or(oneLine(documentError(fault)), compact(fault)), errorCode(fault)
}

// document reads a JSON document. Numbers keep the form that the server gave.
func document(data []byte) (doc any, ok bool) {
	if !json.Valid(data) {
		return nil, false
	}
	values := json.NewDecoder(bytes.NewReader(data))
	values.UseNumber()
	err := values.Decode(&doc)
	return doc, err == nil
}

// present tells whether a value stands for an error: some servers say that there
// is none with null, false or an empty string.
func present(v any) bool {
	return v != nil && v != false && v != ""
}

// documentError is the text of an error document.
func documentError(doc any) string {
	switch v := doc.(type) {
	case string:
		return v
	case []any:
		return listError(v)
	case map[string]any:
		return objectError(v)
	}
	return compact(doc)
}

// objectError is the text of an error object: its message, with type and code
// behind it.
func objectError(object map[string]any) string {
	for _, key := range []string{"error", "detail", "errors"} {
		if nested := object[key]; present(nested) && !(key == "error" && hasMessage(object)) {
			return documentError(nested)
		}
	}
	var message string
	for _, key := range []string{"message", "msg", "reason", "description", "title"} {
		if text, ok := object[key].(string); ok && text != "" {
			message = text
			break
		}
	}
	var marks []string
	for _, key := range []string{"type", "code"} {
		if mark := scalar(object[key]); mark != "" {
			marks = append(marks, mark)
		}
	}
	switch {
	case message == "" && len(marks) == 0:
		return compact(object)
	case message == "":
		return strings.Join(marks, ", ")
	case len(marks) == 0:
		return message
	}
	return message + " (" + strings.Join(marks, ", ") + ")"
}

// hasMessage tells whether an object speaks for itself: then a short error text
// beside the message, as web frameworks send ("error":"Not Found"), says less.
func hasMessage(object map[string]any) bool {
	_, nested := object["error"].(string)
	message, _ := object["message"].(string)
	return nested && message != ""
}

// listError is the text of a list of errors, such as FastAPI's detail: each with
// the place it speaks of.
func listError(list []any) string {
	texts := make([]string, 0, len(list))
	for _, item := range list {
		text := documentError(item)
		if object, ok := item.(map[string]any); ok {
			if message, ok := object["msg"].(string); ok {
				text = message
			}
			if place := place(object["loc"]); place != "" {
				text = place + ": " + text
			}
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, "; ")
}

// place is a location in a request body, its steps joined by dots.
func place(loc any) string {
	steps, _ := loc.([]any)
	names := make([]string, 0, len(steps))
	for _, step := range steps {
		names = append(names, scalar(step))
	}
	return strings.Join(names, ".")
}

// scalar is a string or a number as text, empty for anything else.
func scalar(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case json.Number:
		return v.String()
	}
	return ""
}

// errorCode is the numeric code of an error, 0 if it has none.
func errorCode(fault any) int {
	object, _ := fault.(map[string]any)
	for _, key := range []string{"code", "status", "status_code"} {
		if n, err := strconv.Atoi(scalar(object[key])); err == nil {
			return n
		}
	}
	return 0
}

// compact is a value as JSON in one line.
func compact(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return string(text)
}

// htmlText is what a reader of a page would see of it first: its title, or the
// text without the markup.
func htmlText(page string) string {
	page = htmlHidden.ReplaceAllString(page, " ")
	if m := htmlTitle.FindStringSubmatch(page); m != nil && strings.TrimSpace(m[1]) != "" {
		return html.UnescapeString(m[1])
	}
	return html.UnescapeString(htmlTag.ReplaceAllString(page, " "))
}

// oneLine makes one line of a text, without control characters, cut to
// maxErrorText bytes between two characters.
func oneLine(text string) string {
	text = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(text, "\uFFFD"), func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r)
	}), " ")
	if len(text) <= maxErrorText {
		return text
	}
	const ellipsis = "…"
	end := maxErrorText - len(ellipsis)
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + ellipsis
}
