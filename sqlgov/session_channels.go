package sqlgov

import (
	"bytes"
	"context"
	"encoding/binary"
	"time"

	"interlock/sqlgov/analyze"
	"interlock/sqlgov/policy"
)

// takeNotification relays what another session sent to a channel that this one listens to, if its identity may listen to it now: a
// notification comes long after LISTEN was judged, and without a statement that would be.
func (s *Session) takeNotification(r *Reply) (Output, bool) {
	sender, channel, ok := readNotification(r.Frame)
	if !ok || !s.hears(channel) {
		return Output{}, false
	}
	if sender == s.wire.Process() && s.process != 0 {
		binary.BigEndian.PutUint32(r.Frame[messageHeader:], s.process)
	}
	return Output{Frame: s.front().release(r.Frame)}, true
}

// readNotification reads a NotificationResponse: behind the header come the process id of the sender and the channel.
func readNotification(frame []byte) (sender uint32, channel string, ok bool) {
	const before = messageHeader + 4
	if len(frame) < before {
		return 0, "", false
	}
	name, _, ok := bytes.Cut(frame[before:], []byte{0})
	return binary.BigEndian.Uint32(frame[messageHeader:]), string(name), ok
}

// KnownAs tells the process id that the client knows the session by: notifications of its own carry it. It is called before the first
// message of the client.
func (s *Session) KnownAs(process uint32) { s.process = process }

// hears reports if the session's identity may listen to a channel, under the key, the roles and the policies of this moment.
func (s *Session) hears(channel string) bool {
	rules, index := s.core.Rules.Current(), s.core.Catalogs.Index(s.source)
	if rules == nil || index == nil || s.core.Keys.Active(context.Background(), s.caller.KeyID) != nil {
		return false
	}
	if src := rules.Source(s.source); src == nil || src.Disabled || !rules.Granted(s.caller.Identity, s.source) {
		return false
	}
	if s.raw {
		return rules.Raw(s.caller.Identity, s.source)
	}
	in := policy.Input{Identity: s.caller.Identity, Source: s.source, Door: string(s.caller.Door), Catalog: index,
		Facts: &analyze.Facts{Statements: []analyze.Statement{{Kind: analyze.Listen, Channels: []analyze.Channel{{Name: channel, Action: analyze.Listening}}}}}}
	d := rules.Settle(rules.Decide(in), in, policy.Circumstances{Now: time.Now(), Address: hostOf(s.caller.ClientAddr), Application: s.caller.Application})
	return d.Verdict == policy.Allowed
}
