package policy

import (
	"fmt"
	"slices"

	"interlock/sqlgov/analyze"
)

// everyChannel is the object of a need for a channel that is known only when the statement runs.
const everyChannel = "*"

// channelActions are what a statement needs for what it does with a channel.
var channelActions = map[analyze.ChannelAction]Action{analyze.Listening: ChannelListen, analyze.Notifying: ChannelNotify}

// channels judges every channel of a statement. A call of pg_notify of which no channel is known needs them all.
func (j *judge) channels(s *analyze.Statement) {
	for _, c := range s.Channels {
		j.channel(c)
	}
	for _, f := range s.Functions {
		if Builtin(f) == BuiltinNotify && len(s.Channels) == 0 {
			j.channel(analyze.Channel{Action: analyze.Notifying})
		}
	}
}

func (j *judge) channel(c analyze.Channel) {
	action, known := channelActions[c.Action]
	if !known {
		j.add(Reason{Note: fmt.Sprintf("unknown action %q on a channel", c.Action)})
		return
	}
	need := Need{Action: action, Object: everyChannel}
	if c.Name != "" {
		need.Object = quoteIdent(c.Name)
	}
	j.settle(need, j.set.channel(action, c.Name))
}

// channel returns the rule that decides about a channel: the first deny, else the first allow, else nil. "" is any channel, which a deny of
// one denies.
func (g *grantSet) channel(action Action, name string) *rule {
	var allow *rule
	rules := g.rules[action]
	for i := range rules {
		r := &rules[i]
		covers := name != "" && r.resource.channel(name) || name == "" && r.resource.everyChannel()
		switch {
		case r.effect == Deny && (covers || name == ""):
			return r
		case allow == nil && r.effect == Allow && covers:
			allow = r
		}
	}
	return allow
}

// allowsChannels says which channels an action is allowed on.
func (j *judge) allowsChannels(action Action) string {
	var names []string
	for _, r := range j.set.rules[action] {
		switch {
		case r.effect != Allow:
		case r.resource.everyChannel() && j.set.denies(action):
			return fmt.Sprintf("%s allow %s on all channels but those that they deny.", j.who(), verb(action))
		case r.resource.everyChannel():
			return fmt.Sprintf("%s allow %s on all channels.", j.who(), verb(action))
		case j.set.channel(action, r.resource.Parts[0].Name).effect == Allow:
			if name := quoteIdent(r.resource.Parts[0].Name); !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	if len(names) == 0 {
		return fmt.Sprintf("%s do not allow %s on any channel.", j.who(), verb(action))
	}
	slices.Sort(names)
	return fmt.Sprintf("%s allow %s on channel %s.", j.who(), verb(action), list(cut(names, maxTablesListed)))
}
