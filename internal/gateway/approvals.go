package gateway

import (
	"interlock/internal/identity"
	"interlock/sqlgov"
)

// holdForPeople lets the core hold statements. Whichever node has the approval runs it, so they are in the control store.
func (g *Gateway) holdForPeople() error {
	secret, err := identity.LoadSecret(g.cfg.StoreDir())
	if err != nil {
		return err
	}
	kept, err := g.Store.Approvals(secret)
	if err != nil {
		return err
	}
	conf := &g.cfg.Approvals
	g.Core.Approvals = &sqlgov.Approvals{Store: kept, Node: AuditConfig(g.cfg).Node, PerIdentity: conf.MaxPendingPerIdentity, InAll: conf.MaxPending,
		MaxBytes: int(conf.MaxBytes), Lease: conf.Lease, Keep: conf.Keep}
	if conf.Webhook.URL != "" {
		g.webhook = newWebhook(conf.Webhook, g.Store, AuditConfig(g.cfg).Node, g.log)
	}
	return nil
}
