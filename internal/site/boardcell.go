package site

import (
	"maps"
	"net/url"
	"strconv"
	"strings"

	"speedmatrix/internal/catalog"
)

// boardCell is what a board ranks by.
type boardCell struct {
	at    place
	by    catalog.Sort
	floor float64
}

// boardTabs are the numbers that every board offers.
var boardTabs = []boardCell{{oneUser, catalog.ByTotal, usualFloor}, {place{32 << 10, 1}, catalog.ByTotal, usualFloor}, {usualLoad, catalog.ByTotal, usualFloor},
	{place{usersContext, 1}, catalog.ByUsers, usualFloor}, {place{16 << 10, 1}, catalog.ByPrefill, usualFloor}}

// name is what a board ranks by in a tab: "Total, 16K × 8".
func (b boardCell) name() string {
	context := contextLabel(b.at.context)
	switch {
	case b.by == catalog.ByUsers:
		return "Users at " + floorText(b.floor) + " tok/s, " + context
	case b.by == catalog.ByPrefill:
		return "Prefill, " + context
	case b.by == catalog.ByTTFT:
		return "TTFT, " + b.at.String()
	case b.by == catalog.ByPerRequest:
		return "Per request, " + b.at.String()
	case b.at.concurrency == 1 && b.at.context == 0:
		return "One user, context 0"
	case b.at.concurrency == 1:
		return "One user, " + context
	}
	return "Total, " + b.at.String()
}

// title is the same in a heading, behind the model's name.
func (b boardCell) title() string {
	switch b.by {
	case catalog.ByUsers:
		return "users at " + floorText(b.floor) + " tok/s each, " + contextLabel(b.at.context) + " of context, by hardware"
	case catalog.ByPrefill:
		return "prefill at " + contextLabel(b.at.context) + ", by hardware"
	}
	return b.unit() + " at " + b.at.String() + ", by hardware"
}

// unit is what the numbers are.
func (b boardCell) unit() string {
	switch b.by {
	case catalog.ByUsers:
		return "Users"
	case catalog.ByPrefill:
		return "prompt tok/s"
	case catalog.ByTTFT:
		return "TTFT"
	case catalog.ByPerRequest:
		return "per request tok/s"
	}
	return "total tok/s"
}

// says is what the number is, in a sentence.
func (b boardCell) says() string {
	context := contextLabel(b.at.context) + " of context"
	if b.at.context == 0 {
		context = "no context before the question"
	}
	count := countWord(b.at.concurrency)
	users := capital(count) + " users at once, each with " + context + "."
	if b.at.concurrency == 1 {
		users = "One user with " + context + "."
	}
	switch b.by {
	case catalog.ByUsers:
		return "The most users at once that each get " + floorText(b.floor) + " tok/s with " + context + ", as measured: nothing between the measured counts."
	case catalog.ByPrefill:
		return "How fast a prompt of " + contextLabel(b.at.context) + " is read, cold, one request at a time."
	case catalog.ByTTFT:
		return users + " The number is the median time until the first token."
	case catalog.ByPerRequest:
		return users + " The number is what each of them gets."
	}
	if b.at.concurrency == 1 {
		return users + " The number is what the server makes for this user."
	}
	return users + " The number is what the server makes for all " + count + " together."
}

// link is the board's address for a model.
func (b boardCell) link(v url.Values, model, weights string) string {
	out := url.Values{}
	maps.Copy(out, v)
	for name, value := range map[string]string{"model": model, "weights": weights, "by": "", "floor": ""} {
		out.Del(name)
		if value != "" {
			out.Set(name, value)
		}
	}
	if b.by != catalog.ByTotal {
		out.Set("by", string(b.by))
	}
	if b.by == catalog.ByUsers && b.floor != usualFloor {
		out.Set("floor", floorText(b.floor))
	}
	path := "/boards/" + b.path()
	if len(out) == 0 {
		return path
	}
	return path + "?" + out.Encode()
}

func (b boardCell) path() string {
	return strings.ToLower(contextLabel(b.at.context)) + "x" + strconv.Itoa(b.at.concurrency)
}
