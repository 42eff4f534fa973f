-- Of which version of its catalog the texts of a source are. They are in a table of their own, assets_<id>.
create table sources (
	id      integer primary key autoincrement,
	source  text not null unique,
	version text not null
) strict
