create table d.integers (id int primary key, ti tinyint, tu tinyint unsigned not null default 3, si smallint default -5, su smallint unsigned,
  mi mediumint, mu mediumint unsigned, iu int unsigned not null default 7, bi bigint, bu bigint unsigned, f float, db double not null default 1.5);
create table d.exact (a int, b int, d decimal(10,2) not null default 1.5, d65 decimal(65,30), dz decimal(5,0) default 3,
  b1 bit(1), b9 bit(9) not null, y year, primary key (b, a));
create table d.times (id int primary key, da date default '1970-01-02', t time, t6 time(6), dt datetime, dt3 datetime(3) not null default '2026-01-01 00:00:01.500',
  dt6 datetime(6), ts timestamp null, tn timestamp not null default current_timestamp, dn datetime default current_timestamp);
create table d.texts (c char(3) character set latin1, v varchar(20) not null default 'x', x text, bn binary(4), vb varbinary(9), bl blob,
  e enum('a','b,c') not null default 'a', s set('x','y') default 'x,y', j json);
create table d.shapes (id int primary key, g geometry, p point, n point not null, l linestring not null, v vector(3) not null);
create table d.`odd-näme` (`1st` int primary key, `b c` varchar(5), `ü` int);
