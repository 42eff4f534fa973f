package policy

// changing are the actions that can change data: a function outside the system schemas may do anything.
var changing = []Action{TableInsert, TableUpdate, TableDelete, TableTruncate, CreateTable, AlterTable, DropTable,
	FunctionExec, LargeWrite, ExecuteRaw}

// MayChange reports if any role of an identity allows an action on a source that can change data. If none does, its
// sessions can be read-only on the server as well.
func (r *Ruleset) MayChange(identity, source string) bool {
	set := r.grants[grantKey{identity, source}]
	if set == nil {
		return false
	}
	for _, action := range changing {
		for i := range set.rules[action] {
			if set.rules[action][i].effect == Allow {
				return true
			}
		}
	}
	return false
}
