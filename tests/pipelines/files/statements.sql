-- Statements that Spark parses, one per line: streams, joins, windows, nested data, and what other dialects do not have.
SELECT count(*) AS n FROM t GROUP BY window(at, '1 minute')
SELECT window.start, window.end, sum(amount) FROM orders GROUP BY window(at, '10 minutes', '5 minutes')
SELECT session_window(at, '5 minutes') AS w, count(1) FROM t GROUP BY session_window(at, '5 minutes'), user
SELECT o.value.id, c.name FROM orders o JOIN customers c ON o.value.customer = c.id
SELECT o.id FROM orders o LEFT JOIN payments p ON o.id = p.id AND p.at BETWEEN o.at AND o.at + INTERVAL 1 HOUR
SELECT from_json(value, 'a INT, b STRING').a FROM t
SELECT value:a.b[0]::int FROM t
SELECT explode(items) AS item, id FROM t
SELECT id, item.* FROM t LATERAL VIEW explode(items) x AS item
SELECT transform(items, x -> x.price * x.count) FROM t
SELECT aggregate(items, 0D, (acc, x) -> acc + x.price) FROM t
SELECT named_struct('a', 1, 'b', 2) AS s
SELECT map('a', 1)['a'], array(1,2,3)[0]
SELECT * EXCEPT (a, b) FROM t
SELECT try_cast(a AS DECIMAL(10,2)), a::bigint FROM t
SELECT date_trunc('hour', at) h, percentile_approx(x, 0.5) FROM t GROUP BY ALL
SELECT sum(a) FILTER (WHERE b > 1) FROM t
SELECT collect_list(a) WITHIN GROUP (ORDER BY b) FROM t
SELECT listagg(a, ',') WITHIN GROUP (ORDER BY a) FROM t
SELECT a FROM t WHERE a RLIKE 'x.*' AND b LIKE ANY ('a%', 'b%')
SELECT 1L, 2S, 3Y, 1.5BD, 2.0D, 1e3, X'1F', DATE '2020-01-01', TIMESTAMP '2020-01-01 00:00:00'
SELECT INTERVAL '1' DAY, INTERVAL 1 DAY 2 HOURS, INTERVAL '1-2' YEAR TO MONTH
SELECT /*+ BROADCAST(c) */ * FROM a JOIN c USING (id)
SELECT * FROM a NATURAL JOIN b
SELECT * FROM a LEFT ANTI JOIN b ON a.x = b.x
SELECT * FROM a LEFT SEMI JOIN b USING (x)
SELECT * FROM a CROSS JOIN b
SELECT a, sum(b) FROM t GROUP BY a WITH ROLLUP
SELECT a, b, sum(c) FROM t GROUP BY GROUPING SETS ((a), (a, b), ())
SELECT a, sum(b) FROM t GROUP BY CUBE(a)
SELECT * FROM t TABLESAMPLE (10 PERCENT)
SELECT * FROM VALUES (1, 'a'), (2, 'b') AS t(x, y)
SELECT * FROM range(10)
SELECT stack(2, 'a', 1, 'b', 2) AS (k, v) FROM t
SELECT a AS `my col`, `weird-name` FROM `t`
SELECT CASE WHEN a THEN 1 ELSE 2 END, CASE x WHEN 1 THEN 'a' END FROM t
SELECT if(a, 1, 2), nullif(a, b), coalesce(a, b), nvl2(a, b, c) FROM t
SELECT current_timestamp(), current_date, now() FROM t
WITH a AS (SELECT 1 AS x), b AS (SELECT * FROM a) SELECT * FROM b
SELECT * FROM (SELECT 1) WHERE EXISTS (SELECT 1 FROM t WHERE t.a = 1)
SELECT a FROM t UNION ALL SELECT b FROM u ORDER BY 1 LIMIT 10 OFFSET 5
SELECT a FROM t MINUS SELECT a FROM u
SELECT * FROM t PIVOT (sum(x) FOR y IN ('a', 'b'))
SELECT * FROM t UNPIVOT (v FOR k IN (a, b))
SELECT extract(YEAR FROM at), substring(a FROM 1 FOR 2), trim(BOTH 'x' FROM a), position('a' IN b) FROM t
SELECT a <=> b, a <> b, a != b, !a, ~b, a % b, a DIV b, a || b, a ^ b, a & b, a | b FROM t
SELECT a IS DISTINCT FROM b, a IS NOT NULL, a IS TRUE FROM t
SELECT count(DISTINCT a), count(*) FROM t HAVING count(*) > 1
SELECT * FROM t DISTRIBUTE BY a SORT BY b
SELECT * FROM t CLUSTER BY a
SELECT a FROM t WINDOW w AS (PARTITION BY b)
SELECT sum(a) OVER w FROM t WINDOW w AS (PARTITION BY b ORDER BY c ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
FROM t |> WHERE a > 1 |> SELECT a |> AGGREGATE sum(a) GROUP BY b
FROM t SELECT a WHERE b > 1
SELECT timestamp, date, key, value, offset, partition, topic, headers, year, month, user FROM t
SELECT t.end, t.start, t.order FROM t
SELECT value.order.id FROM t
SELECT max_by(a, b), any_value(a), first(a) IGNORE NULLS, last(a, true) FROM t
SELECT r'raw\d', "double quoted", 'it''s', 'esc\'aped' FROM t
SELECT DISTINCT a FROM t
SELECT ALL a FROM t
SELECT a b FROM t u
SELECT struct(*) FROM t
SELECT to_json(struct(a, b)) AS value, CAST(id AS STRING) AS key FROM t
SELECT hash(a, b), xxhash64(*) FROM t
SELECT * FROM t WHERE (a, b) IN (SELECT x, y FROM u)
SELECT * FROM a, LATERAL (SELECT * FROM b WHERE a.x = b.x)
SELECT inline(items) FROM t
SELECT posexplode(items) AS (pos, item) FROM t
SELECT timestampadd(HOUR, 1, at), datediff(DAY, a, b), date_add(a, 1) FROM t
SELECT a NOT IN (1, 2), NOT a LIKE 'x', a NOT RLIKE 'y', a ILIKE 'x%' FROM t
SELECT CAST(a AS ARRAY<STRUCT<x: INT, y: MAP<STRING, DOUBLE>>>) FROM t
SELECT variant_get(v, '$.a', 'int'), parse_json(a) FROM t
SELECT * FROM t VERSION AS OF 3
SELECT * FROM t TIMESTAMP AS OF '2020-01-01'
SELECT :param, ? FROM t
SELECT a COLLATE UTF8_LCASE FROM t
SELECT func(a => 1, b => 2) FROM t
SELECT * FROM tvf(TABLE(t) PARTITION BY a ORDER BY b)
SELECT TRANSFORM(a) USING 'cat' AS (b) FROM t
TABLE t
VALUES (1, 2)
(SELECT 1) UNION (SELECT 2)
SELECT 1 AS order, 2 AS group
SELECT a.* FROM t a ORDER BY ALL
SELECT 5 percent FROM t
SELECT left FROM t
SELECT (x -> x) FROM t
SELECT EXISTS(items, x -> x > 1), FILTER(items, x -> x > 1), zip_with(a, b, (x, y) -> x + y) FROM t
SELECT a FROM t WHERE b = (SELECT max(b) FROM t)
SELECT at + INTERVAL 5 MINUTES, at - make_interval(0,0,0,1) FROM t
